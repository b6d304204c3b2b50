"""Runs agents as programs: each is a Pi of its own in RPC mode, led over its stdin and stdout.

The child asks before each call, and its budget is counted here. What it says is never believed
further than that: what it changed is captured, and what it hands in is judged, as with every other
agent. When it ends in any other way than by settling, the attempt fails and says how.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trio

from agents.backends.attempt import AttemptSpec
from agents.backends.pi_conversation import PiConversation, PiMeans
from agents.backends.pi_fields import PiProtocolError
from agents.backends.pi_launch import HEADLESS, PROMPT_OPTIONS, kept_private, last_words
from agents.backends.pi_records import Heard, decode_record
from agents.backends.pi_secrets import strike_out_saved
from agents.backends.pi_stream import PiStream
from agents.loadout import CODEMODE
from agents.loop import AgentLost, AgentOutcome
from agents.pi_program import CHILD, PiProgram
from agents.prompt import system_prompt
from agents.scripting import ScriptLanguage
from agents.submission import SUBMIT_RESULT, submit_declaration
from engine.core.spec import ModelChoice
from engine.system.duplex import Duplex, open_duplex
from engine.system.launch import LaunchError
from engine.system.output import ToMemory
from engine.system.process import ProcessSpec

CHILD_VARIABLE: Final = "PINATA_CHILD"
_GRACE_S = 3.0
_STDERR_BYTES = 16 << 10


@dataclass(frozen=True, slots=True)
class PiAgentSpec:
    """One attempt of an agent that is a Pi.

    Attributes:
        pi: the program.
        choice: its model.
        session: the file of its conversation, which holds a header at least.
        missing: tools that this Pi cannot offer; its agent has them neither.
    """

    attempt: AttemptSpec
    pi: PiProgram
    choice: ModelChoice
    session: Path
    missing: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class PiAgent:
    """An agent that leads one conversation at a time; each is a process of its own."""

    spec: PiAgentSpec
    means: PiMeans

    async def run(self, brief: str, tools: Sequence[str] | None = None) -> AgentOutcome:
        """Lead a conversation to its end and return how it ended; nothing of the process is left.

        A second one goes on where the first one ended, with its own tools.

        Args:
            brief: the first message.
            tools: what it may call, beside `submit_result`; by default what its definition lists.

        Raises:
            ExternalError: the delivery of a message cannot be recorded, or the prompt not be kept.
        """
        attempt = self.spec.attempt
        listed = attempt.definition.pi.offered(attempt.names(tools))
        names = tuple(name for name in listed if name not in self.spec.missing)
        scripts = ScriptLanguage.JAVASCRIPT if attempt.codemode else None
        system = system_prompt(attempt.definition, names, scripts=scripts)
        try:
            async with (
                kept_private(system, attempt.context.env) as prompt,
                open_duplex(self._program(names, prompt), grace_s=_GRACE_S) as duplex,
            ):
                return await self._talk(duplex, names, brief)
        except LaunchError as error:
            return AgentLost(str(error), self.means.budget.spent)
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(
                    strike_out_saved, self.spec.session, self.means.route.secrets
                )

    async def _talk(self, duplex: Duplex, names: tuple[str, ...], brief: str) -> AgentOutcome:
        stream: PiStream[Heard] = PiStream(duplex.stream, decode_record)
        guard = self.spec.attempt.guard(names)
        choice = self.spec.choice
        model = f"{choice.provider}/{choice.id}"
        conversation = PiConversation(
            self.spec.attempt, guard, model=model, means=self.means, stream=stream
        )
        try:
            outcome = await conversation.lead(brief)
        except PiProtocolError as error:
            return AgentLost(f"Pi broke its protocol: {error}", self.means.budget.spent)
        if outcome is not None:
            return outcome
        ended = await duplex.wait_exit()
        how = f"signal {ended.signal}" if ended.code is None else f"code {ended.code}"
        said = self.means.tidied(last_words(ended.stderr))
        last = f"; it last said: {said}" if said else ""
        return AgentLost(f"Pi ended by itself, with {how}{last}", self.means.budget.spent)

    def _program(self, names: tuple[str, ...], prompt: Path) -> ProcessSpec:
        attempt = self.spec.attempt
        declaration = submit_declaration(attempt.definition.kind)
        shown = {
            "name": declaration.name,
            "description": declaration.description,
            "parameters": declaration.parameters,
        }
        return ProcessSpec(
            argv=(*self.spec.pi.argv, *self._options(names, prompt)),
            cwd=attempt.context.root,
            env={**attempt.context.env, CHILD_VARIABLE: json.dumps({"submit": shown})},
            output=ToMemory(_STDERR_BYTES, keeps_end=True),
            mark=attempt.context.mark,
        )

    def _options(self, names: tuple[str, ...], prompt: Path) -> tuple[str, ...]:
        attempt, choice = self.spec.attempt, self.spec.choice
        own = ["-e", str(CHILD)]
        tools = [*names, SUBMIT_RESULT]
        if attempt.codemode:
            own += ["-e", f"builtin:{CODEMODE}"]
            tools.append(CODEMODE)
        pi = attempt.definition.pi
        return (
            *HEADLESS,
            *pi.options(attempt.context.home),
            *own,
            *("--tools", ",".join(tools)),
            *("--model", f"{choice.provider}/{choice.id}", "--thinking", choice.thinking.value),
            *("--session", str(self.spec.session)),
            *(PROMPT_OPTIONS[pi.prompt], str(prompt)),
        )
