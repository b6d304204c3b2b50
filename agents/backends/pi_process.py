"""Runs agents as programs: each is a Pi of its own in RPC mode, led over its stdin and stdout.

The child asks before each call, and its budget is counted here. What it says is never believed
further than that: what it changed is captured, and what it hands in is judged, as with every other
agent. When it ends in any other way than by settling, the attempt fails and says how.
"""

import json
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trio

from agents.backends.attempt import AttemptSpec
from agents.backends.pi_conversation import PiConversation, PiMeans
from agents.backends.pi_records import PiProtocolError
from agents.backends.pi_stream import PiStream
from agents.loadout import CODEMODE
from agents.loop import AgentLost, AgentOutcome
from agents.models.trouble import strike_out
from agents.pi_program import CHILD, PiProgram
from agents.prompt import system_prompt
from agents.scripting import ScriptLanguage
from agents.submission import SUBMIT_RESULT, submit_declaration
from engine.core.errors import ExternalError
from engine.core.spec import ModelChoice
from engine.system import files
from engine.system.duplex import Duplex, open_duplex
from engine.system.launch import LaunchError
from engine.system.output import ToMemory
from engine.system.process import ProcessSpec

CHILD_VARIABLE: Final = "PINATA_CHILD"
# Nothing of the user's is loaded but logins, models and settings; what an agent is, its definition
# says.
_HEADLESS: Final = (
    "--mode",
    "rpc",
    "--offline",
    "--no-prompt-templates",
    "--no-themes",
    "--no-approve",
)
_GRACE_S = 3.0
_PROMPT_FILE = "prompt.md"
_PROMPT_OPTIONS = {"append": "--append-system-prompt", "replace": "--system-prompt"}
_STDERR_BYTES = 16 << 10
_MOST_SAID = 400
# What is shorter is a word that a server takes for a key because it must have one.
_SECRET_CHARS = 8
_SESSION_LIMIT_BYTES = 1 << 30


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
                _kept_private(system, attempt.context.env) as prompt,
                open_duplex(self._program(names, prompt), grace_s=_GRACE_S) as duplex,
            ):
                return await self._talk(duplex, names, brief)
        except LaunchError as error:
            return AgentLost(str(error), self.means.budget.spent)
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(self._strike_out_secrets)

    def _strike_out_secrets(self) -> None:
        """Take out of what Pi saved what its provider repeated of the user's secrets; blocks."""
        path = self.spec.session
        revealed = [secret.reveal() for secret in self.means.route.secrets]
        secrets = [secret for secret in revealed if len(secret) >= _SECRET_CHARS]
        try:
            saved = files.read_regular(path, _SESSION_LIMIT_BYTES).decode(errors="replace")
        except FileNotFoundError:
            return
        if any(secret in saved or json.dumps(secret)[1:-1] in saved for secret in secrets):
            cleared = strike_out(saved, secrets).encode()
            files.replace_file(path, cleared, fault="pi.session")

    async def _talk(self, duplex: Duplex, names: tuple[str, ...], brief: str) -> AgentOutcome:
        stream = PiStream(duplex.stream)
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
        said = self.means.tidied(_last_words(ended.stderr))
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
            *_HEADLESS,
            *pi.options(attempt.context.home),
            *own,
            *("--tools", ",".join(tools)),
            *("--model", f"{choice.provider}/{choice.id}", "--thinking", choice.thinking.value),
            *("--session", str(self.spec.session)),
            *(_PROMPT_OPTIONS[pi.prompt], str(prompt)),
        )


def _last_words(stderr: bytes) -> str:
    """Return the end of what a child wrote to stderr, from the beginning of a line on."""
    text = stderr.decode(errors="replace").strip()
    end = text[-_MOST_SAID:]
    if len(end) < len(text):
        end = end.partition("\n")[2] or end
    return end


@asynccontextmanager
async def _kept_private(text: str, env: Mapping[str, str]) -> AsyncIterator[Path]:
    """Keep a text in a file that only this user reads, until the block is left.

    A command line may be too short for it, and everybody can read that.
    """
    folder = await trio.to_thread.run_sync(_save_prompt, text, env.get("TMPDIR") or None)
    try:
        yield folder / _PROMPT_FILE
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(lambda: shutil.rmtree(folder, ignore_errors=True))


def _save_prompt(text: str, temporary: str | None) -> Path:
    try:
        folder = Path(tempfile.mkdtemp(prefix="pinata-pi-", dir=temporary or "/tmp"))  # noqa: S108 - the name below it is unguessable
        (folder / _PROMPT_FILE).write_text(text, "utf-8")
    except OSError as error:
        raise ExternalError(f"cannot keep the system prompt for Pi: {error}") from error
    return folder
