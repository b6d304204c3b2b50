"""Runs agents in this process: our own loop, tools and guard, no program of its own."""

from collections.abc import Sequence
from dataclasses import dataclass

from agents.backends.attempt import AttemptSpec
from agents.codemode import codemode_tool
from agents.filetools.registry import TOOLS
from agents.loop import AgentMeans, AgentOutcome, AgentSpec, run_agent
from agents.prompt import system_prompt
from agents.scripting import ScriptLanguage
from agents.toolbox import Toolbox, declare


@dataclass(frozen=True, slots=True)
class InProcessAgent:
    """An agent that leads one conversation at a time; what it is led with stays the caller's."""

    spec: AttemptSpec
    means: AgentMeans

    async def run(self, brief: str, tools: Sequence[str] | None = None) -> AgentOutcome:
        """Lead a conversation from its brief to its end and return how it ended.

        Args:
            brief: the first message.
            tools: what it may call, by itself and from scripts, beside `submit_result`, such as
                `RESULT_ONLY_TOOLS`; by default what its definition lists.

        Raises:
            ExternalError: the conversation cannot be saved.
        """
        spec = self.spec
        names = spec.names(tools)
        script = None
        if spec.codemode:
            script = codemode_tool([declare(TOOLS[name]) for name in names], spec.context.mark)
        scripts = ScriptLanguage.PYTHON if spec.codemode else None
        system = system_prompt(spec.definition, names, scripts=scripts)
        return await run_agent(
            AgentSpec(spec.attempt, system, brief, spec.rules),
            Toolbox(names, spec.guard(names), spec.context, script=script),
            self.means,
        )
