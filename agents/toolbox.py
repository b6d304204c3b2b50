"""The tools of one agent: what it is shown, and the one way in which it calls them."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, overload

import trio

from agents.budget import BudgetKind
from agents.filetools.registry import TOOLS
from agents.filetools.tool import Tool, ToolAnswer, ToolContext, ignore_update
from agents.guard import Guard
from agents.models.port import ToolDeclaration

MAX_ANSWER_CHARS = 1_000_000
_log = logging.getLogger(f"pinata.{__name__}")

# How a script calls a tool: name and arguments, guarded, counted and noted like every other call.
# A kind of budget in place of an answer forbids the call: script and attempt are over.
Update: TypeAlias = Callable[[str], None]
NestedCall: TypeAlias = Callable[[str, Mapping[str, object]], Awaitable[ToolAnswer | BudgetKind]]


@dataclass(frozen=True, slots=True)
class ScriptTool:
    """The tool that calls the other tools.

    Attributes:
        declaration: the tool as the model sees it.
        run: takes the arguments as the model sent them and the way to call a tool; passes on what
            forbids one. Raises nothing but `trio.Cancelled`, unless there is a bug.
    """

    declaration: ToolDeclaration
    run: Callable[[object, NestedCall], Awaitable[ToolAnswer | BudgetKind]]


def declare(tool: Tool) -> ToolDeclaration:
    """Return what a model is shown of `tool`."""
    return ToolDeclaration(tool.name, tool.description, tool.parameters)


class Toolbox:
    """Tools in a fixed order, behind a guard if there is one. `submit_result` is not among them."""

    def __init__(
        self,
        names: Sequence[str],
        guard: Guard | None,
        context: ToolContext,
        tools: Mapping[str, Tool] = TOOLS,
        script: ScriptTool | None = None,
    ) -> None:
        """Take the tools called `names` out of `tools`, which must hold them all.

        Args:
            names: in the order in which the model sees them.
            guard: must know the names, and the script tool's if there is one; None lets every call
                pass.
            context: where the tools work.
            tools: all there are.
            script: is shown after the others.
        """
        self._tools = {name: tools[name] for name in names}
        self._script = script
        self._guard = guard
        self._context = context

    @property
    def declarations(self) -> tuple[ToolDeclaration, ...]:
        """The tools as the model sees them, in order."""
        shown = map(declare, self._tools.values())
        return tuple(shown if self._script is None else [*shown, self._script.declaration])

    @overload
    async def call(
        self, name: str, arguments: Mapping[str, object], *, update: Update = ignore_update
    ) -> ToolAnswer: ...

    @overload
    async def call(
        self,
        name: str,
        arguments: Mapping[str, object],
        nested: NestedCall,
        *,
        update: Update = ignore_update,
    ) -> ToolAnswer | BudgetKind: ...

    async def call(
        self,
        name: str,
        arguments: Mapping[str, object],
        nested: NestedCall | None = None,
        *,
        update: Update = ignore_update,
    ) -> ToolAnswer | BudgetKind:
        """Carry a call out and return the answer for the model, refusals and breakdowns too.

        Args:
            name: of the tool.
            arguments: as the model sent them.
            nested: how a script's calls are made; None for a call that a script makes itself.
            update: see `ToolContext.update`.

        Returns:
            What forbids a call of the script, instead of an answer, if something does.
        """
        if self._guard is not None:
            refusal = await trio.to_thread.run_sync(self._guard.check, name, arguments)
            if refusal is not None:
                return ToolAnswer(refusal.message, is_error=True)
        try:
            answer = await self._perform(name, arguments, nested, update)
        except Exception:  # noqa: BLE001 - a tool call's boundary: a bug in a tool must not end the agent
            _log.exception("tool %s broke", name)
            return ToolAnswer(f"{name} broke down; try another way", is_error=True)
        if isinstance(answer, ToolAnswer) and len(answer.text) > MAX_ANSWER_CHARS:
            return ToolAnswer(answer.text[:MAX_ANSWER_CHARS] + "\n[cut]", answer.is_error)
        return answer

    async def _perform(
        self,
        name: str,
        arguments: Mapping[str, object],
        nested: NestedCall | None,
        update: Update,
    ) -> ToolAnswer | BudgetKind:
        if self._script is not None and name == self._script.declaration.name:
            if nested is None:
                return ToolAnswer("a script cannot start another one", is_error=True)
            return await self._script.run(arguments, nested)
        tool = self._tools.get(name)
        if tool is None:
            known = ", ".join(self._tools)
            return ToolAnswer(f"there is no tool of that name; yours are {known}", is_error=True)
        return await tool.run(replace(self._context, update=update), arguments)
