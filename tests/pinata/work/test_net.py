"""Several writers' changes become one change per path, or are refused."""

import pytest

from engine.core.changes import EXECUTABLE_MODE, SYMLINK_MODE, ChangeStatus
from engine.core.ids import TaskId
from pinata.work.net import BrokenSequenceError, net_changes
from tests.support.results import change

ONE, TWO = TaskId("one"), TaskId("two")


def test_changes_of_different_paths_are_sorted_by_path() -> None:
    b, a = change("b", "1", "2"), change("a", None, "3")
    assert net_changes([(ONE, [b]), (TWO, [a])]) == (a, b)


def test_second_change_of_a_path_starts_where_the_first_ended() -> None:
    steps = [(ONE, [change("a", "1", "2")]), (TWO, [change("a", "2", "3")])]
    assert net_changes(steps) == (change("a", "1", "3"),)


def test_path_that_ends_as_it_began_is_left_out() -> None:
    steps = [(ONE, [change("a", "1", "2")]), (TWO, [change("a", "2", "1")])]
    assert net_changes(steps) == ()


def test_file_added_and_removed_again_is_left_out() -> None:
    steps = [(ONE, [change("a", None, "2")]), (TWO, [change("a", "2", None)])]
    assert net_changes(steps) == ()


def test_file_removed_and_added_anew_is_modified() -> None:
    steps = [(ONE, [change("a", "1", None)]), (TWO, [change("a", None, "2")])]
    assert net_changes(steps) == (change("a", "1", "2"),)


@pytest.mark.parametrize(
    ("mode", "status"),
    [(EXECUTABLE_MODE, ChangeStatus.MODIFIED), (SYMLINK_MODE, ChangeStatus.TYPE_CHANGED)],
    ids=["executable", "link"],
)
def test_kind_of_the_joined_change_is_that_of_its_two_ends(mode: str, status: ChangeStatus) -> None:
    steps = [(ONE, [change("a", "1", None)]), (TWO, [change("a", None, "2", mode=mode)])]
    (joined,) = net_changes(steps)
    assert (joined.status, joined.new_mode) == (status, mode)


def test_modified_then_removed_is_deleted_and_added_then_modified_is_added() -> None:
    removed = [(ONE, [change("a", "1", "2")]), (TWO, [change("a", "2", None)])]
    added = [(ONE, [change("b", None, "2")]), (TWO, [change("b", "2", "3")])]
    assert net_changes(removed) == (change("a", "1", None),)
    assert net_changes(added) == (change("b", None, "3"),)


def test_change_that_starts_from_something_else_is_refused_naming_task_and_path() -> None:
    steps = [(ONE, [change("a", "1", "2")]), (TWO, [change("a", "1", "3")])]
    with pytest.raises(BrokenSequenceError, match="task two: its change to a does not start"):
        net_changes(steps)
