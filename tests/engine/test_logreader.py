"""A log is read as often as asked, each time only what is new, and never half of two logs."""

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.core.errors import CorruptionError
from engine.core.events import TaskQueued
from engine.core.ids import RunId, TaskId
from engine.logreader import LogReader, NewEvents, replay
from engine.records.event import Logged, encode_event

RUN = RunId("0123456789abcdef")


def queued(seq: int, task: str = "a") -> Logged:
    return Logged(seq, 5, TaskQueued(TaskId(task)))


def lines(*events: Logged) -> bytes:
    return b"".join(encode_event(e.event, seq=e.seq, run=RUN, at_ms=e.at_ms) for e in events)


def look(reader: LogReader) -> tuple[bool, list[Logged]]:
    found: NewEvents = reader.read()
    return found.is_afresh, found.events


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


@pytest.fixture
def reader(path: Path) -> LogReader:
    """Return a reader that has seen two events."""
    path.write_bytes(lines(queued(0), queued(1)))
    reader = LogReader(path, RUN)
    assert look(reader) == (True, [queued(0), queued(1)])
    return reader


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_second_look_shows_what_was_added(path: Path, reader: LogReader) -> None:
    assert look(reader) == (False, [])
    append(path, lines(queued(2)))
    assert look(reader) == (False, [queued(2)])
    assert look(reader) == (False, [])
    assert reader.size == path.stat().st_size


def test_long_log_goes_on_where_it_was_left(path: Path) -> None:
    events = [queued(number) for number in range(200)]
    reader = LogReader(path, RUN)
    for begin in range(0, 200, 50):
        append(path, lines(*events[begin : begin + 50]))
        assert look(reader) == (begin == 0, events[begin : begin + 50])


def test_torn_last_line_is_left_until_it_is_whole(path: Path, reader: LogReader) -> None:
    added = lines(queued(2))
    append(path, added[:9])
    assert look(reader) == (False, [])
    append(path, added[9:])
    assert look(reader) == (False, [queued(2)])


def shorten(path: Path) -> None:
    path.write_bytes(lines(queued(0, "b")))


def replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(lines(queued(0), queued(1)))
    other.rename(path)


def rewrite(path: Path) -> None:
    path.write_bytes(lines(queued(0), queued(1, "c"), queued(2)))


@pytest.mark.parametrize("change", [shorten, replace, rewrite])
def test_log_that_is_not_the_one_that_was_read_is_read_afresh(
    path: Path, reader: LogReader, change: Callable[[Path], None]
) -> None:
    change(path)
    assert look(reader) == (True, replay(path, RUN))
    assert look(reader) == (False, [])


def test_log_that_is_gone_is_empty_and_may_come_back(path: Path, reader: LogReader) -> None:
    path.unlink()
    assert look(reader) == (True, [])
    path.write_bytes(lines(queued(0)))
    assert look(reader) == (True, [queued(0)])


@pytest.mark.parametrize(
    ("damage", "message"),
    [(b"{}\n", "line 3 is not an event"), (lines(queued(4)), "line 3 has number 4 where 2 is due")],
    ids=["damaged", "gap"],
)
def test_damage_in_what_was_added_is_named_by_its_line_each_time(
    path: Path, reader: LogReader, damage: bytes, message: str
) -> None:
    append(path, damage)
    for _ in range(2):
        with pytest.raises(CorruptionError, match=message):
            reader.read()
    path.write_bytes(lines(queued(0)))
    assert look(reader) == (True, [queued(0)])
