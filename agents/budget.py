"""What one attempt may use up: turns, tool calls and dollars, over all its conversations."""

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import assert_never

from agents.models.port import Usage
from agents.purse import Purse
from engine.core.cost import is_over


class BudgetKind(Enum):
    """What there is a budget for; the values are what people read."""

    TOOL_CALLS = "tool-call budget"
    COST = "cost limit"
    UNKNOWN_COST = "unknown cost"
    TURNS = "turn budget"


@dataclass(frozen=True, slots=True)
class Spent:
    """What an attempt has used so far.

    Attributes:
        refused_calls: how many of the tool calls were refused or failed.
    """

    turns: int = 0
    tool_calls: int = 0
    usage: Usage = field(default_factory=Usage)
    refused_calls: int = 0


class Budget:
    """Counts what an attempt uses and says when it is too much.

    Using exactly what is allowed is fine. When several limits are passed at once, tool calls are
    named before cost, and cost before turns. A result-only retry goes on with the same budget.
    """

    def __init__(self, *, max_turns: int, max_tool_calls: int, purse: Purse | None = None) -> None:
        """Begin with nothing used.

        Args:
            max_turns: how many turns may begin.
            max_tool_calls: how many tool calls may begin, `submit_result` included.
            purse: the run's; what is left in it now is what this attempt may spend by itself.
        """
        self.purse = purse or Purse()
        self._max_turns = max_turns
        self._max_tool_calls = max_tool_calls
        self._cost_usd = self.purse.left_usd
        self._spent = Spent()

    @property
    def spent(self) -> Spent:
        """What was used so far."""
        return self._spent

    @property
    def has_turn(self) -> bool:
        """Whether another turn may begin."""
        return self._spent.turns < self._max_turns

    @property
    def has_call(self) -> bool:
        """Whether another tool call may begin."""
        return self._spent.tool_calls < self._max_tool_calls

    def begin_turn(self) -> BudgetKind | None:
        """Count a turn, or return what forbids it."""
        tripped = self.tripped()
        if tripped is None and not self.has_turn:
            tripped = BudgetKind.TURNS
        if tripped is None:
            spent = self._spent
            self._spent = replace(spent, turns=spent.turns + 1)
        return tripped

    def begin_call(self) -> BudgetKind | None:
        """Count a tool call, or return what forbids it."""
        spent = self._spent
        if not self.has_call:
            return BudgetKind.TOOL_CALLS
        self._spent = replace(spent, tool_calls=spent.tool_calls + 1)
        return self.tripped()

    def note_refusal(self) -> None:
        """Count that a call which had begun was refused or failed."""
        self._spent = replace(self._spent, refused_calls=self._spent.refused_calls + 1)

    def spend(self, usage: Usage) -> None:
        """Count what an answer cost, also one that broke off, here and in the run's purse."""
        self.purse.spend(usage.cost_usd)
        self._spent = replace(self._spent, usage=self._spent.usage + usage)

    def tripped(self) -> BudgetKind | None:
        """Return COST when more than the limit was spent, or when that cannot be known."""
        cost = self._spent.usage.cost_usd
        if self._cost_usd is None:
            return None
        if cost is None:
            return BudgetKind.UNKNOWN_COST
        return BudgetKind.COST if is_over(cost, self._cost_usd) else None

    def describe(self, kind: BudgetKind) -> str:
        """Return a sentence that says which limit was reached."""
        match kind:
            case BudgetKind.TURNS:
                most = self._max_turns
                return f"turn budget: all are used up, {most} of {most} (limits.maxTurns)"
            case BudgetKind.TOOL_CALLS:
                most = self._max_tool_calls
                return f"tool-call budget: all are used up, {most} of {most} (limits.maxToolCalls)"
            case BudgetKind.COST:
                spent = self._spent.usage.cost_usd or 0.0
                return (
                    f"cost limit: {spent:.4g} dollars were spent of {self._cost_usd:.4g}"
                    " (limits.costUsd)"
                )
            case BudgetKind.UNKNOWN_COST:
                return (
                    "cost limit: it is not known what the model's answers cost; give its prices in"
                    " models.json, or leave out limits.costUsd"
                )
            case _:
                assert_never(kind)
