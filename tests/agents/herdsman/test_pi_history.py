"""A session file that somebody else writes, as we read it."""

import json
from pathlib import Path

import pytest

from agents.herdsman.pi_history import PiHistory
from agents.herdsman.runtime import REQUEST, RETIRED, Entry
from engine.core.errors import ExternalError

HEADER = {"type": "session", "version": 3, "id": "s"}


def line(id_: str, parent: str | None, kind: str = "", **details: object) -> dict[str, object]:
    """Return an entry; of the herd when it has a kind."""
    tree = {"id": id_, "parentId": parent}
    if not kind:
        return {"type": "message", **tree, "message": {"role": "user"}}
    if kind == REQUEST:
        return {"type": "custom_message", "customType": kind, "details": details, **tree}
    return {"type": "custom", "customType": kind, "data": details, **tree}


def add(path: Path, *lines: object) -> None:
    with path.open("a") as file:
        file.writelines(json.dumps(each) + "\n" for each in lines)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file in which nobody has spoken."""
    add(tmp_path / "s.jsonl", HEADER)
    return tmp_path / "s.jsonl"


def test_what_is_added_is_read_further_on(path: Path) -> None:
    history = PiHistory(path)
    assert history.entries() == ()
    add(path, line("1", None), line("2", "1", REQUEST, request="r"))
    assert history.entries() == (Entry(REQUEST, {"request": "r"}),)
    add(path, line("3", "2", RETIRED))
    assert history.entries() == (Entry(REQUEST, {"request": "r"}), Entry(RETIRED, {}))
    assert history.known == 2


def test_a_line_is_read_when_it_is_whole(path: Path) -> None:
    history = PiHistory(path)
    text = json.dumps(line("1", None, RETIRED)) + "\n"
    with path.open("a") as file:
        file.write(text[:20])
    assert history.entries() == ()
    with path.open("a") as file:
        file.write(text[20:])
    assert history.entries() == (Entry(RETIRED, {}),)


def test_an_entry_is_not_glued_to_one_that_was_written_by_half(path: Path) -> None:
    history = PiHistory(path)
    before = path.read_bytes()
    history.end_line()
    assert path.read_bytes() == before
    with path.open("a") as file:
        file.write('{"type":"mess')
    assert history.entries() == ()
    history.end_line()
    add(path, line("1", None, REQUEST, request="r"))
    assert history.entries() == (Entry(REQUEST, {"request": "r"}),)


def test_an_empty_file_is_left_empty(path: Path) -> None:
    path.write_bytes(b"")
    PiHistory(path).end_line()
    assert path.read_bytes() == b""


def test_a_file_that_cannot_be_gone_on_with_is_told_as_such(tmp_path: Path) -> None:
    with pytest.raises(ExternalError, match="cannot be gone on with"):
        PiHistory(tmp_path / "none").end_line()


def test_a_branch_that_was_left_is_told_as_such(path: Path) -> None:
    add(path, line("1", None, RETIRED, n=1), line("2", "1", RETIRED, n=2))
    add(path, line("3", "1", RETIRED, n=3))
    assert PiHistory(path).entries() == (
        Entry(RETIRED, {"n": 1}),
        Entry(RETIRED, {"n": 2}, on_branch=False),
        Entry(RETIRED, {"n": 3}),
    )


def test_lines_that_are_no_entries_of_the_herd_are_passed_over(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b'{"type":"custom","id":"torn\n\xff\n[]\n{"id": 5}\n' + b"[" * 9_999 + b"\n")
    odd = {"type": "custom", "customType": RETIRED, "data": "no object", "id": "1", "parentId": 7}
    add(path, odd, line("2", "2", "somebody-else"), {**line("3", "1"), "customType": RETIRED})
    found = PiHistory(path).entries()
    assert found == (
        Entry(RETIRED, {}, on_branch=True),
        Entry(RETIRED, {}),
    )


def test_entries_that_follow_each_other_in_a_circle_are_read_all_the_same(path: Path) -> None:
    add(path, line("1", "2", RETIRED), line("2", "1", RETIRED))
    assert len(PiHistory(path).entries()) == 2


def test_an_entry_is_held_only_if_it_is_new(path: Path) -> None:
    add(path, line("1", None, REQUEST, request="r"))
    history = PiHistory(path)
    assert history.holds(REQUEST, {"request": "r"}, 0)
    assert not history.holds(REQUEST, {"request": "r"}, history.known)
    assert not history.holds(REQUEST, {"request": "other"}, 0)
    add(path, line("2", "1", REQUEST, request="r"))
    assert history.holds(REQUEST, {"request": "r"}, 1)


def test_a_file_that_cannot_be_read_is_told_as_such(tmp_path: Path) -> None:
    with pytest.raises(ExternalError, match="the conversation cannot be read"):
        PiHistory(tmp_path / "nowhere").entries()
