from pathlib import Path

import pytest

from agents.transcript import SaidMessage
from engine.core.errors import UsageError
from engine.core.events import AttemptStarted, Event, RunStarted, TaskQueued
from engine.core.ids import AttemptId, TaskId
from engine.core.view import RunView
from engine.store import RunFolder
from pinata.work.conversation import read_conversation
from tests.support.linked import session_line

LOOK = TaskId("look")


def view_after(attempts: int) -> RunView:
    view = RunView()
    events: list[Event] = [RunStarted(1), TaskQueued(LOOK)]
    events += [AttemptStarted(AttemptId(LOOK, number)) for number in range(1, attempts + 1)]
    for seq, event in enumerate(events):
        view.apply(seq, 0, event)
    return view


def test_newest_conversation_is_read_where_no_attempt_is_named(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.transcripts.mkdir()
    for number in (1, 2):
        line = session_line("assistant", f"attempt {number}")
        folder.transcript_file(AttemptId(LOOK, number)).write_text(line)
    for asked, number in ((None, 2), (1, 1), (2, 2)):
        said = read_conversation(folder, [LOOK], view_after(2), LOOK, asked)
        assert said == (SaidMessage("assistant", f"attempt {number}"),)


@pytest.mark.parametrize(
    ("asked", "newest", "says"),
    [
        (None, 0, "of the task: no agent has started"),
        (1, 0, "of the task: no agent has started"),
        (2, 2, "of attempt 2: its agent has not started"),
        (4, 3, "there is no attempt 4 at the task: it has attempts 1 to 3"),
        (0, 3, "there is no attempt 0 at the task: it has attempts 1 to 3"),
    ],
)
def test_missing_conversation_has_a_reason(
    tmp_path: Path, asked: int | None, newest: int, says: str
) -> None:
    with pytest.raises(UsageError) as refused:
        read_conversation(RunFolder(tmp_path), [LOOK], view_after(newest), LOOK, asked)
    assert str(refused.value).endswith(says)


def test_conversation_of_a_task_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match='"nosuch" is not a task of this run; it has look'):
        read_conversation(RunFolder(tmp_path), [LOOK], view_after(1), TaskId("nosuch"), None)
