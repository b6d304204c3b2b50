"""The tools of one agent: what it is shown, and the one way in which it calls them."""

import logging
from collections.abc import Mapping, Sequence

import trio

from agents.filetools.registry import TOOLS
from agents.filetools.tool import Tool, ToolAnswer, ToolContext
from agents.guard import Guard
from agents.models.port import ToolDeclaration

MAX_ANSWER_CHARS = 1_000_000
_log = logging.getLogger(f"pinata.{__name__}")


class Toolbox:
    """Tools in a fixed order, behind the guard. `submit_result` is not among them."""

    def __init__(
        self,
        names: Sequence[str],
        guard: Guard,
        context: ToolContext,
        tools: Mapping[str, Tool] = TOOLS,
    ) -> None:
        """Take the tools called `names` out of `tools`, which must hold them all."""
        self._tools = {name: tools[name] for name in names}
        self._guard = guard
        self._context = context

    @property
    def declarations(self) -> tuple[ToolDeclaration, ...]:
        """The tools as the model sees them, in order."""
        return tuple(
            ToolDeclaration(tool.name, tool.description, tool.parameters)
            for tool in self._tools.values()
        )

    async def call(self, name: str, arguments: Mapping[str, object]) -> ToolAnswer:
        """Carry a call out and return the answer for the model, refusals and breakdowns too."""
        refusal = await trio.to_thread.run_sync(self._guard.check, name, arguments)
        if refusal is not None:
            return ToolAnswer(refusal.message, is_error=True)
        tool = self._tools.get(name)
        if tool is None:
            known = ", ".join(self._tools)
            return ToolAnswer(f"there is no tool of that name; yours are {known}", is_error=True)
        try:
            answer = await tool.run(self._context, arguments)
        except Exception:  # noqa: BLE001 - a tool call's boundary: a bug in a tool must not end the agent
            _log.exception("tool %s broke", name)
            return ToolAnswer(f"{name} broke down; try another way", is_error=True)
        if len(answer.text) > MAX_ANSWER_CHARS:
            return ToolAnswer(answer.text[:MAX_ANSWER_CHARS] + "\n[cut]", answer.is_error)
        return answer
