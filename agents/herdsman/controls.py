"""What an owner tells an agent that has an assignment: correct it, stop and redirect it, answer it.

Each call looks, prepares the message, looks again, and then leaves a request under the lock of the
agent's mailbox, where what allows it is checked once more. None starts another assignment.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from agents.herdsman.attachments import Sender, prepare_message
from agents.herdsman.config import read_config
from agents.herdsman.controller import Controller
from agents.herdsman.errors import Category, HerdError, Trouble, not_found
from agents.herdsman.identity import RequestId
from agents.herdsman.mailbox import Mailbox
from agents.herdsman.preflight import check_interrupt, check_reply, check_steer
from agents.herdsman.projection import Evidence
from agents.herdsman.record import (
    Acknowledgement,
    Contents,
    RejectionCode,
    Request,
    RequestKind,
)
from agents.herdsman.record_form import request_size
from agents.herdsman.submit import CONTROL_PATIENCE_S, leave, wait_answer

_CATEGORIES: Final = {
    RejectionCode.BUSY: Category.AGENT_BUSY,
    RejectionCode.IDLE: Category.AGENT_BUSY,
    RejectionCode.INVALID: Category.INVALID_REQUEST,
    RejectionCode.IDENTITY: Category.TARGET_NOT_FOUND,
    RejectionCode.AMBIGUOUS: Category.TARGET_AMBIGUOUS,
    RejectionCode.DELIVERY: Category.INTERNAL_FAILURE,
}
_DO_NOT_REPEAT: Final = (
    "do not send it again: it may still be taken. agent_list shows when the agent has answered"
)


async def steer(
    controller: Controller, *, agent: str, message: str, files: Sequence[str]
) -> dict[str, Any]:
    """Correct an agent at work; it reads the message after its present answer and the calls in it.

    Raises:
        HerdError: it was not told, or nobody can tell whether it was (INTERNAL_FAILURE).
    """
    call = _Call(RequestKind.STEER, "Steer", agent, message, files)
    return await call.make(controller)


async def interrupt(
    controller: Controller, *, agent: str, message: str, files: Sequence[str]
) -> dict[str, Any]:
    """Stop what an agent does, and have it go on with its assignment by a message.

    Raises:
        HerdError: as `steer`.
    """
    call = _Call(RequestKind.INTERRUPT, "Interrupt", agent, message, files)
    return await call.make(controller)


async def reply(
    controller: Controller, *, agent: str, message: str, files: Sequence[str]
) -> dict[str, Any]:
    """Answer the question that an agent waits with.

    Raises:
        HerdError: as `steer`.
    """
    call = _Call(RequestKind.REPLY, "Reply", agent, message, files)
    return await call.make(controller)


@dataclass(frozen=True, slots=True)
class _Call:
    kind: RequestKind
    heading: str
    agent: str
    message: str
    files: Sequence[str]

    async def make(self, controller: Controller) -> dict[str, Any]:
        """Tell the agent, and return what it answers.

        Raises:
            HerdError: see `steer`.
        """
        known = {"agent": self.agent}
        try:
            found = await self._find(controller)
            known["session_id"] = found.contents.state.session
            request = await self._prepared(controller, self._draft(controller, found))
            await self._leave(controller, found, request)
            mailbox = Mailbox.of_generation(controller.premises, found.contents.state.of)
            answer = await wait_answer(mailbox, request, patience_s=CONTROL_PATIENCE_S)
            return self._answered(found, request, answer)
        except HerdError as error:
            ids = {**known, **error.trouble.ids}
            raise error.told(operation=self.kind.value, ids=ids) from error

    async def _find(self, controller: Controller) -> Evidence:
        seen = await controller.look()
        return seen.find(controller.caller, self.agent)

    def _draft(self, controller: Controller, found: Evidence) -> Request:
        premises = controller.premises
        request = RequestId(premises.new_id())
        state = found.contents.state
        draft = Request(state.of, request, self.kind, self.message, premises.clock.now_ms())
        if self.kind is RequestKind.REPLY:
            draft = replace(draft, ask=check_reply(found).ask)
        self._check(found, draft)
        return draft

    def _check(self, found: Evidence, request: Request) -> None:
        """Check that the agent would take the request, as far as can be seen.

        Raises:
            HerdError: it would not.
        """
        match self.kind:
            case RequestKind.STEER:
                check_steer(found)
            case RequestKind.INTERRUPT:
                check_interrupt(found)
            case _:
                if check_reply(found).ask != request.ask:
                    raise not_found(f"agent {self.agent!r} waits with another question by now")

    async def _prepared(self, controller: Controller, draft: Request) -> Request:
        sender = Sender.of(controller)
        prepared = await prepare_message(
            sender,
            heading=self.heading,
            text=self.message,
            files=self.files,
            config=await read_config(controller.premises),
            measure=lambda text, bindings: request_size(
                replace(draft, text=text, bindings=bindings)
            ),
        )
        return replace(draft, text=prepared.text, bindings=prepared.bindings)

    async def _leave(self, controller: Controller, found: Evidence, request: Request) -> None:
        identity = found.contents.state.identity
        async with controller.claim_delegation():
            again = await self._find(controller)

            def permit(contents: Contents) -> None:
                self._check(replace(again, contents=contents), request)

            mailbox = Mailbox.of_generation(controller.premises, again.contents.state.of)
            await leave(mailbox, identity, request, permit=permit)

    def _answered(
        self, found: Evidence, request: Request, answer: Acknowledgement | None
    ) -> dict[str, Any]:
        state = found.contents.state
        if answer is None:
            raise HerdError(_unconfirmed(self.agent, request))
        if not answer.accepted:
            raise HerdError(_rejected(self.agent, request, answer))
        told = {
            "action": self.kind.value,
            "agent": self.agent,
            "request_id": request.request,
            "assignment_request_id": state.active,
            "session_id": state.session,
        }
        return told if request.ask is None else {**told, "ask_id": request.ask}


def _unconfirmed(agent: str, request: Request) -> Trouble:
    return Trouble(
        Category.INTERNAL_FAILURE,
        f"agent {agent!r} has not answered within {CONTROL_PATIENCE_S:g} seconds; "
        "it is not known whether it will take the request",
        ids={"request_id": request.request},
        next_action=_DO_NOT_REPEAT,
        details={"delivery": "unconfirmed", "request_id": request.request},
    )


def _rejected(agent: str, request: Request, answer: Acknowledgement) -> Trouble:
    assert answer.code is not None
    reason = answer.message or answer.code.value
    return Trouble(
        _CATEGORIES[answer.code],
        f"agent {agent!r} refused: {reason}",
        ids={"request_id": request.request},
        next_action="call agent_list for what can be called on it now",
        details={"code": answer.code.value},
    )
