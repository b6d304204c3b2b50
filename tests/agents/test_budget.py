import pytest

from agents.budget import Budget, BudgetKind, Spent
from agents.models.port import Usage
from agents.purse import Purse


def test_as_many_turns_begin_as_there_are() -> None:
    budget = Budget(max_turns=2, max_tool_calls=9)
    assert [budget.begin_turn(), budget.begin_turn(), budget.begin_turn()] == [
        None,
        None,
        BudgetKind.TURNS,
    ]
    assert (budget.spent.turns, budget.has_turn) == (2, False)
    assert (
        budget.describe(BudgetKind.TURNS)
        == "turn budget: all are used up, 2 of 2 (limits.maxTurns)"
    )


def test_as_many_calls_begin_as_there_are() -> None:
    budget = Budget(max_turns=9, max_tool_calls=1)
    assert [budget.begin_call(), budget.begin_call()] == [None, BudgetKind.TOOL_CALLS]
    assert budget.spent == Spent(0, 1, Usage())
    assert budget.describe(BudgetKind.TOOL_CALLS) == (
        "tool-call budget: all are used up, 1 of 1 (limits.maxToolCalls)"
    )


@pytest.mark.parametrize(
    ("costs", "tripped"),
    [
        ([1.0], None),
        ([0.4, 0.4, 0.4], BudgetKind.COST),
        ([0.1] * 10, None),
        ([0.7, 0.1, 0.2], None),
        ([1.0, 0.000_001], BudgetKind.COST),
    ],
)
def test_only_more_than_the_limit_is_too_much(
    costs: list[float], tripped: BudgetKind | None
) -> None:
    budget = Budget(max_turns=9, max_tool_calls=9, purse=Purse(1.0))
    for cost in costs:
        budget.spend(Usage(1, 2, cost))
    assert budget.tripped() is tripped
    assert budget.begin_turn() is tripped
    assert (budget.spent.usage.input_tokens, budget.spent.usage.output_tokens) == (
        len(costs),
        2 * len(costs),
    )


def test_noise_of_binary_fractions_is_no_overspending() -> None:
    budget = Budget(max_turns=9, max_tool_calls=9, purse=Purse(0.3))
    budget.spend(Usage(cost_usd=0.1))
    budget.spend(Usage(cost_usd=0.2))
    assert budget.tripped() is None


def test_an_unknown_price_stays_unknown_and_trips_nothing_without_a_limit() -> None:
    budget = Budget(max_turns=9, max_tool_calls=9)
    budget.spend(Usage(cost_usd=None))
    budget.spend(Usage(cost_usd=3.0))
    assert budget.spent.usage.cost_usd is None
    assert budget.tripped() is None


def test_a_limit_cannot_be_held_where_a_price_is_unknown() -> None:
    budget = Budget(max_turns=9, max_tool_calls=9, purse=Purse(0.5))
    budget.spend(Usage(cost_usd=None))
    assert budget.begin_turn() is BudgetKind.UNKNOWN_COST
    assert budget.describe(BudgetKind.UNKNOWN_COST) == (
        "cost limit: it is not known what the model's answers cost; give its prices in"
        " models.json, or leave out limits.costUsd"
    )


def test_an_attempt_may_spend_what_is_left_when_it_begins() -> None:
    purse = Purse(1.0, spent_usd=0.25)
    first, second = (Budget(max_turns=9, max_tool_calls=9, purse=purse) for _ in range(2))
    first.spend(Usage(cost_usd=0.5))
    second.spend(Usage(cost_usd=0.5))
    assert (first.tripped(), second.tripped()) == (None, None)
    assert (purse.spent_usd, purse.left_usd) == (1.25, 0.0)
    third = Budget(max_turns=9, max_tool_calls=9, purse=purse)
    third.spend(Usage(cost_usd=0.01))
    assert third.tripped() is BudgetKind.COST


def test_tool_calls_are_named_before_cost_and_cost_before_turns() -> None:
    budget = Budget(max_turns=1, max_tool_calls=1, purse=Purse(0.5))
    budget.begin_turn()
    budget.begin_call()
    budget.spend(Usage(cost_usd=0.75))
    assert budget.begin_call() is BudgetKind.TOOL_CALLS
    assert budget.begin_turn() is BudgetKind.COST
    assert budget.describe(BudgetKind.COST) == (
        "cost limit: 0.75 dollars were spent of 0.5 (limits.costUsd)"
    )
