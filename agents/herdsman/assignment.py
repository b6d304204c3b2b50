"""What a new agent is started for, prepared as far as that leaves no trace."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import trio

from agents.herdsman.attachments import Prepared, Sender, prepare_message
from agents.herdsman.config import HerdConfig
from agents.herdsman.controller import Controller
from agents.herdsman.errors import invalid
from agents.herdsman.identity import Correlation, GenerationId, Handle, Label, RequestId
from agents.herdsman.persona import expand_persona
from agents.herdsman.policy import Effective
from agents.herdsman.record import Request, RequestKind
from agents.herdsman.record_form import request_size
from agents.herdsman.saved_session import ManagedSession
from agents.models.pi_files import key_files

# As long as those that backends give; a longer one is found out once the agent is up.
_PROSPECTIVE_HANDLE: Final = Handle("x" * 32)


@dataclass(frozen=True, slots=True)
class Assignment:
    """What an agent is started for.

    Attributes:
        operation: what the call is named, in answers and errors.
        request: the name of the task, and of its result.
        managed: the session to be continued; None begins a new one.
        limit_bytes: the longest record that the task may make.
    """

    operation: str
    effective: Effective
    generation: GenerationId
    request: RequestId
    cwd: str
    message: Prepared
    persona: str
    limit_bytes: int
    managed: ManagedSession | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """A task as it was called for.

    Attributes:
        label: of the agent, or one as long as any, where it is not decided yet.
    """

    operation: str
    effective: Effective
    text: str
    files: Sequence[str]
    label: Label
    cwd: str
    managed: ManagedSession | None = None

    async def prepare(self, controller: Controller, config: HerdConfig) -> Assignment:
        """Return the assignment, with its files read; nothing is changed.

        Raises:
            HerdError: the text, a file or the definition's text cannot be used; see
                `prepare_message` and `expand_persona`.
        """
        if not self.text.strip():
            raise invalid("the task is blank", next_action="say what the agent is to do")
        premises, caller = controller.premises, controller.caller
        generation, name = GenerationId(premises.new_id()), RequestId(premises.new_id())
        of = Correlation(
            generation, caller.session, caller.workspace, self.label, _PROSPECTIVE_HANDLE
        )
        draft = Request(of, name, RequestKind.TASK, self.text, premises.clock.now_ms())
        message = await prepare_message(
            Sender.of(controller),
            heading="Task",
            text=self.text,
            files=self.files,
            config=config,
            measure=lambda text, bindings: request_size(
                replace(draft, text=text, bindings=bindings)
            ),
        )

        def expand() -> str:
            definition = self.effective.definition
            return expand_persona(
                definition,
                controller.home,
                without=message.paths,
                secrets=key_files(controller.agent_dir),
            )

        return Assignment(
            operation=self.operation,
            effective=self.effective,
            generation=generation,
            request=name,
            cwd=self.cwd,
            message=message,
            persona=await trio.to_thread.run_sync(expand),
            limit_bytes=config.mailbox_payload_limit_bytes,
            managed=self.managed,
        )
