"""Runs agents in this process: our own loop, tools and guard, no program of its own."""

from collections.abc import Sequence
from dataclasses import dataclass

from agents.codemode import codemode_tool
from agents.definition import Definition
from agents.filetools.registry import TOOLS
from agents.filetools.tool import ToolContext
from agents.guard import Guard
from agents.loadout import CODEMODE, READING_TOOLS
from agents.loop import AgentMeans, AgentOutcome, AgentSpec, run_agent
from agents.prompt import system_prompt
from agents.submission import SubmissionRules
from agents.toolbox import Toolbox, declare
from engine.core.ids import AttemptId

# What a writer that ended without a result gets to report what it left behind.
RESULT_ONLY_TOOLS = READING_TOOLS


@dataclass(frozen=True, slots=True)
class InProcessSpec:
    """One attempt of one agent.

    Attributes:
        context: where its tools work; the root is its workspace.
        ownership: what a writer may change; empty for everybody else.
        fold_case: whether the workspace's volume takes `A` and `a` for the same name.
        codemode: whether it can call its tools from scripts.
    """

    attempt: AttemptId
    definition: Definition
    rules: SubmissionRules
    context: ToolContext
    ownership: tuple[str, ...] = ()
    fold_case: bool = False
    codemode: bool = False


@dataclass(frozen=True, slots=True)
class InProcessAgent:
    """An agent that leads one conversation at a time; what it is led with stays the caller's."""

    spec: InProcessSpec
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
        spec, definition = self.spec, self.spec.definition
        names = definition.tools if tools is None else tuple(tools)
        guard = Guard(
            kind=definition.kind,
            root=spec.context.root,
            ownership=spec.ownership,
            tools=(*names, CODEMODE) if spec.codemode else names,
            fold_case=spec.fold_case,
            home=spec.context.home,
        )
        script = None
        if spec.codemode:
            script = codemode_tool([declare(TOOLS[name]) for name in names], spec.context.mark)
        system = system_prompt(definition, names, codemode=spec.codemode)
        return await run_agent(
            AgentSpec(spec.attempt, system, brief, spec.rules),
            Toolbox(names, guard, spec.context, script=script),
            self.means,
        )
