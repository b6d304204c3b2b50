"""Carries out the calls of an answer: counted, noted, and handed to whom they are for."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from agents.budget import Budget, BudgetKind
from agents.filetools.tool import ToolAnswer
from agents.models.characters import whole_characters
from agents.models.port import ToolCall
from agents.tidy import summarize_call, tidy_call
from agents.toolbox import Toolbox
from engine.core.events import ToolEnded, ToolStarted, ToolUpdated, Trace
from engine.core.ids import AttemptId

# Carries out a tool that is no part of the toolbox; the call may have a fault.
OwnTool: TypeAlias = Callable[[ToolCall], Awaitable[ToolAnswer]]


@dataclass(slots=True)
class Hands:
    """Does what a model asks for in one conversation.

    Attributes:
        own: the tools by name that the agent calls beside those of the toolbox, and never from a
            script.
    """

    attempt: AttemptId
    toolbox: Toolbox
    budget: Budget
    note: Callable[[Trace], None]
    own: Mapping[str, OwnTool]
    _nested: int = 0

    async def carry_out(self, call: ToolCall) -> ToolAnswer | BudgetKind:
        """Return the answer to a call, or what forbids it."""
        tripped = self.budget.begin_call()
        if tripped is not None:
            return tripped
        return await self._noted(call, is_nested=False)

    async def _noted(self, call: ToolCall, *, is_nested: bool) -> ToolAnswer | BudgetKind:
        self.note(ToolStarted(self.attempt, call.id, call.name, summarize_call(call)))
        answer = await self._perform(call, is_nested=is_nested)
        is_error = isinstance(answer, BudgetKind) or answer.is_error
        if is_error and isinstance(answer, ToolAnswer):
            self.budget.note_refusal()
        self.note(ToolEnded(self.attempt, call.id, call.name, is_error))
        return answer

    async def _perform(self, call: ToolCall, *, is_nested: bool) -> ToolAnswer | BudgetKind:
        own = self.own.get(call.name)
        if own is not None and not is_nested:
            return await own(call)
        if call.fault is not None:
            return ToolAnswer(f"{call.name}: {call.fault}", is_error=True)
        if own is not None:
            fault = "cannot be called from a script; end the script, then call it by itself"
            return ToolAnswer(f"{call.name} {fault}", is_error=True)

        def update(text: str) -> None:
            self.note(ToolUpdated(self.attempt, call.id, call.name, text))

        if is_nested:
            return await self.toolbox.call(call.name, call.arguments, update=update)

        async def from_script(
            name: str, arguments: Mapping[str, object]
        ) -> ToolAnswer | BudgetKind:
            return await self._call_from_script(call.id, name, arguments)

        return await self.toolbox.call(call.name, call.arguments, from_script, update=update)

    async def _call_from_script(
        self, script: str, name: str, arguments: Mapping[str, object]
    ) -> ToolAnswer | BudgetKind:
        """Carry out a call of the script that is the call `script`, like any other call."""
        tripped = self.budget.begin_call()
        if tripped is not None:
            return tripped
        self._nested += 1
        # No call of a model has a dot in its id, so that this one is free.
        call = tidy_call(ToolCall("", name, arguments), (), self._nested)
        named = ToolCall(f"{script}.{self._nested}", call.name, call.arguments, call.fault)
        answer = await self._noted(named, is_nested=True)
        if isinstance(answer, BudgetKind):
            return answer
        return ToolAnswer(whole_characters(answer.text), answer.is_error)
