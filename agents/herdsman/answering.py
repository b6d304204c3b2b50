"""Answers the requests in an agent's mailbox: each once, in one write of the state."""

from collections.abc import Callable
from typing import assert_never

from agents.herdsman.accept import (
    Accepted,
    Known,
    Moment,
    Refused,
    Verdict,
    accepted,
    is_acknowledged,
    judge,
    refused,
)
from agents.herdsman.duty import Duty, is_passing
from agents.herdsman.errors import Category, HerdError
from agents.herdsman.identity import RequestId
from agents.herdsman.injection import queue_steer
from agents.herdsman.record import Ask, RejectionCode, Request, RequestKind, State
from agents.herdsman.record_form import UnreadableRecordError
from agents.herdsman.references import binding_details, import_bindings
from agents.herdsman.runtime import BINDING
from engine.core.errors import ExternalError


class Answering:
    """Answers the requests of one generation."""

    def __init__(self, duty: Duty, inject: Callable[[Request], None]) -> None:
        """Begin without having looked.

        Args:
            duty: the generation's work.
            inject: has an accepted task, answer or replacement put into the conversation.
        """
        self._duty = duty
        self._inject = inject

    async def look(self) -> None:
        """Answer what is there.

        Raises:
            GoneError: the mailbox is not this generation's any more.
            PinataError, OSError: something is not answered; what is not is still there.
        """
        for request in await self._duty.mailbox.requests():
            await self._answer(request)

    async def _answer(self, request_id: RequestId) -> None:
        duty, mailbox = self._duty, self._duty.mailbox
        is_repeated = bool(await duty.has_read(request_id))
        has_children = duty.is_at_rest and bool(await duty.undelivered())
        async with duty.own_state() as state:
            try:
                request = await mailbox.read_request(request_id)
            except UnreadableRecordError as error:
                if is_passing(error):
                    raise
                await self._refuse_unreadable(request_id, state, error)
                return
            if request is None:
                return
            moment = Moment(duty.is_at_rest, duty.is_publishing, waits_for_children=has_children)
            verdict: Verdict = Known()
            if not is_repeated:
                verdict = judge(request, state, await self._ask(), moment)
            if isinstance(verdict, Accepted):
                verdict = await self._import(request)
            await self._carry_out(request, verdict, state)
        if isinstance(verdict, Accepted) and request.kind is RequestKind.STEER:
            await queue_steer(duty, request)
            await mailbox.remove_request(request_id)

    async def _refuse_unreadable(
        self, request: RequestId, state: State, error: UnreadableRecordError
    ) -> None:
        if not is_acknowledged(request, state):
            refusal = Refused(RejectionCode.INVALID, f"the request cannot be read: {error}")
            after = refused(state, request, refusal, self._duty.now_ms())
            await self._duty.mailbox.write_state(after)
        await self._duty.mailbox.remove_request(request)

    async def _ask(self) -> Ask | None:
        try:
            return await self._duty.mailbox.read_ask()
        except UnreadableRecordError as error:
            if is_passing(error):
                raise
            return None

    async def _import(self, request: Request) -> Verdict:
        """Bring what the references in a request stand for into the agent's own session."""
        if not request.bindings:
            return Accepted()
        conversation = self._duty.conversation
        try:
            entries = await conversation.entries()
            for binding in import_bindings(request.bindings, entries):
                await conversation.append(BINDING, binding_details(binding))
        except HerdError as error:
            is_ambiguous = error.trouble.category is Category.TARGET_AMBIGUOUS
            code = RejectionCode.AMBIGUOUS if is_ambiguous else RejectionCode.DELIVERY
            return Refused(code, str(error))
        except ExternalError as error:
            message = f"what the references stand for cannot be saved: {error}"
            return Refused(RejectionCode.DELIVERY, message)
        return Accepted()

    async def _carry_out(self, request: Request, verdict: Verdict, state: State) -> None:
        """Write the answer, and remove what nobody needs any more; the mailbox is held."""
        duty, mailbox = self._duty, self._duty.mailbox
        match verdict:
            case Known():
                # What is on its way into the conversation is needed until it is there.
                if state.injection is None or state.injection.request != request.request:
                    await mailbox.remove_request(request.request)
            case Refused():
                after = refused(state, request.request, verdict, duty.now_ms())
                await mailbox.write_state(after)
                await mailbox.remove_request(request.request)
            case Accepted():
                await duty.save(accepted(state, request, duty.now_ms()))
                if request.kind is RequestKind.STEER:
                    duty.told()
                else:
                    self._inject(request)
                if request.kind is RequestKind.REPLY:
                    # It is no question any more; should it stay, the next one takes its place.
                    await mailbox.remove_ask()
            case _:
                assert_never(verdict)
