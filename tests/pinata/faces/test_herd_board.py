"""How a session shows its managed agents."""

from typing import Any

import pytest

from pinata.faces.herd_board import MOST_ROWS, herd_lines, herd_status


def agent(label: str, state: str = "working", **more: object) -> dict[str, Any]:
    """Return a record as `agent_list` has it."""
    known = {"agent": label, "state": state, "agent_definition": "scout", "available_tools": []}
    return known | more


def test_counts_are_in_the_order_of_the_states() -> None:
    agents = [agent("a", "lost"), agent("b", "working"), agent("c", "working")]
    assert herd_status(agents) == "agents: 2 working, 1 lost"
    assert herd_status([]) is None
    assert herd_lines([]) == ()


def test_agents_of_an_agent_stand_below_it_and_all_are_sorted_by_label() -> None:
    agents = [agent("b"), agent("z", "blocked", parent_label="a"), agent("a", "blocked")]
    assert herd_lines(agents) == (
        " ◐ a scout blocked",
        "   ◐ z scout blocked",
        " ● b scout working",
    )


def test_agents_of_equal_labels_in_two_workspaces_stand_below_nobody_elses() -> None:
    agents = [
        agent("a", workspace_id="/one"),
        agent("b", workspace_id="/one", parent_label="a"),
        agent("b", workspace_id="/two"),
        agent("a", workspace_id="/two", parent_label="b"),
    ]
    assert herd_lines(agents) == (
        " ● a scout working",
        "   ● b scout working",
        " ● b scout working",
        "   ● a scout working",
    )


@pytest.mark.parametrize(
    "more",
    [{"available_tools": ["agent_reply"]}, {"result_error": {"message": "gone"}}],
    ids=["an agent that asks", "a result that was lost"],
)
def test_agent_that_needs_its_owner_is_marked(more: dict[str, Any]) -> None:
    assert herd_lines([agent("a", "blocked", **more)]) == ("!◐ a scout blocked",)


def test_stale_agent_says_so() -> None:
    assert herd_lines([agent("a", stale=True)]) == (" ● a scout working, stale",)


def test_mailbox_that_cannot_be_read_is_told_and_steers_no_terminal() -> None:
    unreadable = {"state": "unknown", "available_tools": [], "diagnostic": "bad\x1b[2J"}
    (line,) = herd_lines([unreadable])
    assert line.startswith(" ? bad")
    assert "\x1b" not in line


def test_more_agents_than_there_is_room_for_are_counted() -> None:
    lines = herd_lines([agent(f"a{number}") for number in range(MOST_ROWS + 3)])
    assert len(lines) == MOST_ROWS
    assert lines[-1] == "  and 4 more"
