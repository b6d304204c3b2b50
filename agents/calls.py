"""Carries out the calls of an answer: counted, noted, judged or handed to the toolbox."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agents.budget import Budget, BudgetKind
from agents.filetools.tool import ToolAnswer
from agents.intake import Intake
from agents.models.characters import whole_characters
from agents.models.port import ToolCall
from agents.submission import SUBMIT_RESULT
from agents.tidy import summarize_call, tidy_call
from agents.toolbox import Toolbox
from engine.core.events import ToolEnded, ToolStarted, ToolUpdated, Trace
from engine.core.ids import AttemptId

_TOO_LATE = "not carried out: your result was accepted, and with it your work is done"
_NOT_IN_A_SCRIPT = (
    f"{SUBMIT_RESULT} cannot be called from a script; end the script, then call it by itself"
)


@dataclass(slots=True)
class Hands:
    """Does what a model asks for in one conversation; nothing once a result is accepted."""

    attempt: AttemptId
    intake: Intake
    toolbox: Toolbox
    budget: Budget
    note: Callable[[Trace], None]
    _nested: int = 0

    async def carry_out(self, call: ToolCall) -> ToolAnswer | BudgetKind:
        """Return the answer to a call, or what forbids it."""
        if self.intake.accepted is not None:
            return ToolAnswer(_TOO_LATE, is_error=True)
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
        if call.fault is not None:
            if call.name == SUBMIT_RESULT:
                self.intake.refused = call.fault
            return ToolAnswer(f"{call.name}: {call.fault}", is_error=True)
        if call.name == SUBMIT_RESULT:
            if is_nested:
                return ToolAnswer(_NOT_IN_A_SCRIPT, is_error=True)
            return self.intake.judge(call.arguments)

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
