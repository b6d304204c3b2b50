"""What every backend is told about an attempt."""

from collections.abc import Sequence
from dataclasses import dataclass

from agents.definition import Definition
from agents.filetools.tool import ToolContext
from agents.guard import Guard
from agents.loadout import CODEMODE, READING_TOOLS
from agents.submission import SubmissionRules
from engine.core.ids import AttemptId

# What a writer that ended without a result gets to report what it left behind.
RESULT_ONLY_TOOLS = READING_TOOLS


@dataclass(frozen=True, slots=True)
class AttemptSpec:
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

    def names(self, tools: Sequence[str] | None) -> tuple[str, ...]:
        """Return what the agent may call in a conversation, beside `submit_result`.

        Args:
            tools: by themselves and from scripts; None for what its definition lists.
        """
        return self.definition.tools if tools is None else tuple(tools)

    def guard(self, names: tuple[str, ...]) -> Guard:
        """Return what every call of a conversation with these tools must pass."""
        return Guard(
            kind=self.definition.kind,
            root=self.context.root,
            ownership=self.ownership,
            tools=(*names, CODEMODE) if self.codemode else names,
            fold_case=self.fold_case,
            home=self.context.home,
        )
