"""Runs managed agents as programs: each is a Pi in RPC mode for the whole of its generation."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trio

from agents.backends.pi_launch import HEADLESS, PROMPT_OPTIONS, kept_private, last_words
from agents.backends.pi_secrets import READS_FILES, ReadingPlace, revealed, strike_out_saved
from agents.filetools.arguments import COMMAND_LIMIT_S
from agents.herd_definition import HerdDefinition
from agents.herdsman.agent_prompt import agent_prompt
from agents.herdsman.identity import SessionId
from agents.herdsman.pi_loadout import loadout_options
from agents.herdsman.pi_reader import PiLead, open_talk
from agents.herdsman.pi_talk import PiTalk
from agents.herdsman.recent_output import RecentOutput
from agents.herdsman.record import ProcessStamp
from agents.herdsman.runtime import Attendant, HerdTool
from agents.models.endpoint import Secret
from agents.models.trouble import strike_out, tidy_message
from agents.pi_program import MANAGED, PiProgram
from engine.core.spec import ModelChoice
from engine.system.duplex import Duplex, open_duplex
from engine.system.output import ToMemory
from engine.system.process import ProcessSpec

MANAGED_VARIABLE: Final = "PINATA_MANAGED"
# What a definition says under `permission`, as JSON, for those of its extensions that read it.
PERMISSION_VARIABLE: Final = "PINATA_AGENT_PERMISSION"
_SHELLS: Final = ("bash", "powershell")
_GRACE_S = 3.0
_STDERR_BYTES = 16 << 10
# How long the end of a program may take of which we hear nothing any more.
_EXIT_S = 5.0


@dataclass(frozen=True, slots=True)
class PiManagedSpec:
    """A managed agent that is a Pi.

    Attributes:
        pi: the program.
        definition: as it holds for this agent.
        persona: the definition's text, with the files in it.
        choice: its model.
        session: that it leads.
        session_file: where that is saved; it holds a header at least.
        cwd: where it works, the same as in the header.
        env: the whole environment.
        mark: what its processes carry.
        instructions: more parts of its system prompt, each ending in one newline.
        secrets: what it shows to its provider, who may repeat it.
        secret_files: files with keys, which its tools do not read.
    """

    pi: PiProgram
    definition: HerdDefinition
    persona: str
    choice: ModelChoice
    session: SessionId
    session_file: Path
    cwd: Path
    env: Mapping[str, str]
    mark: str | None = None
    instructions: Sequence[str] = ()
    secrets: tuple[Secret, ...] = ()
    secret_files: tuple[Path, ...] = ()

    def check(self, tools: Sequence[HerdTool]) -> None:
        """Accept it for an agent that is offered these tools of the herd.

        Raises:
            HerdError: INVALID_REQUEST: the definition cannot be meant.
        """
        self.options(tools)

    @property
    def home(self) -> str | None:
        """What `~` stands for, when it is known."""
        return self.env.get("HOME") or None

    @property
    def prompt(self) -> tuple[str, str]:
        """The option that its prompt goes with, and the prompt."""
        mode = self.definition.system_prompt_mode or "append"
        text = agent_prompt(
            self.persona,
            self.cwd,
            declared=(),  # Pi tells of its tools, and of its scripts, by itself
            scripted=None,
            instructions=self.instructions,
            stands_alone=mode == "replace",
        )
        return PROMPT_OPTIONS[mode], text

    def options(self, tools: Sequence[HerdTool]) -> tuple[str, ...]:
        """Return the words of the command line, but for the prompt.

        Raises:
            HerdError: as `check`.
        """
        names = [tool.declaration.name for tool in tools]
        return (
            *HEADLESS,
            # First, so that nobody else's extension sees what is not meant for the model.
            *("-e", str(MANAGED)),
            *loadout_options(self.definition, names, self.home),
            *("--model", f"{self.choice.provider}/{self.choice.id}"),
            *("--thinking", self.choice.thinking.value),
            *("--session", str(self.session_file)),
        )


@asynccontextmanager
async def open_pi(spec: PiManagedSpec, attendant: Attendant) -> AsyncIterator[PiTalk]:
    """Have a managed agent at rest and ready inside the block; nothing of it is left afterwards.

    The attendant hears of all that happens, and its tools are offered to the agent; whoever opens
    this has it serve.

    Raises:
        HerdError: INVALID_REQUEST: the definition cannot be meant; nothing was started.
        ExternalError: it did not come up; what it last said is told.
    """
    options = spec.options(attendant.tools)
    option, text = spec.prompt
    secrets = revealed(spec.secrets)
    recent = RecentOutput(lambda line: strike_out(line, secrets))
    try:
        async with kept_private(text, spec.env) as prompt:
            argv = (*spec.pi.argv, *options, option, str(prompt))
            program = _program(spec, argv, attendant.tools, recent)
            async with open_duplex(program, grace_s=_GRACE_S) as duplex:
                lead = _lead(spec, duplex, recent, secrets)
                async with open_talk(lead, duplex.stream, attendant) as talk:
                    yield talk
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(strike_out_saved, spec.session_file, spec.secrets)


def _program(
    spec: PiManagedSpec, argv: tuple[str, ...], tools: Sequence[HerdTool], recent: RecentOutput
) -> ProcessSpec:
    declared = [tool.declaration for tool in tools]
    told = {
        "tools": [
            {"name": each.name, "description": each.description, "parameters": each.parameters}
            for each in declared
        ],
        "guarded": sorted(READS_FILES) if spec.secret_files else [],
        "shells": _SHELLS,
        "shellTimeoutS": int(COMMAND_LIMIT_S),
    }
    env = {**spec.env, MANAGED_VARIABLE: json.dumps(told, default=dict)}
    if spec.definition.permission is not None:
        env[PERMISSION_VARIABLE] = json.dumps(spec.definition.permission, default=str)
    output = ToMemory(_STDERR_BYTES, keeps_end=True, heard=recent.errors)
    return ProcessSpec(argv=argv, cwd=spec.cwd, env=env, output=output, mark=spec.mark)


def _lead(
    spec: PiManagedSpec, duplex: Duplex, recent: RecentOutput, secrets: tuple[str, ...]
) -> PiLead:
    child = duplex.identity
    assert child is not None

    async def wait_end() -> str:
        return tidy_message(await _how_it_ended(duplex), secrets)

    return PiLead(
        spec.session,
        spec.session_file,
        f"{spec.choice.provider}/{spec.choice.id}",
        ProcessStamp(child.pid, child.start_ticks, child.boot_id),
        ReadingPlace(spec.cwd, spec.home, spec.secret_files),
        recent,
        secrets,
        wait_end,
    )


async def _how_it_ended(duplex: Duplex) -> str:
    with trio.move_on_after(_EXIT_S):
        ended = await duplex.wait_exit()
        how = f"signal {ended.signal}" if ended.code is None else f"code {ended.code}"
        said = last_words(ended.stderr)
        last = f"; it last said: {said}" if said else ""
        return f"Pi ended by itself, with {how}{last}"
    return "Pi has closed its output"
