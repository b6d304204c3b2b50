import json
from dataclasses import replace
from pathlib import Path

import pytest

from engine.core.errors import CorruptionError
from engine.core.ids import BlobId, CommitId
from worktrees.journal import (
    FileIdentity,
    FileKind,
    FileState,
    Journal,
    JournalEntry,
    JournalState,
    RemovedFolder,
)
from worktrees.journal_store import (
    advance,
    archive_journal,
    decode_journal,
    encode_journal,
    next_number,
    read_journal,
    read_state,
    write_journal,
)


def _state(kind: FileKind = FileKind.FILE, *, permissions: int = 0o644) -> FileState:
    mode = "100644" if kind is FileKind.FILE else "120000"
    identity = FileIdentity(device=1, inode=2, mtime_ns=3, settled=True)
    return FileState(kind, mode, BlobId("b" * 40), permissions, 5, "c" * 64, identity)


def _journal(folder: Path) -> Journal:
    return Journal(
        folder=folder,
        number=3,
        state=JournalState.APPLYING,
        evidence_digest="e" * 64,
        root=Path("/some\udcff/\ncheckout"),
        head=CommitId("a" * 40),
        index_digest="d" * 64,
        slots=folder / "slots-3",
        entries=(
            JournalEntry(b"gone\nwith a newline", _state(), None),
            JournalEntry(b"link", None, _state(FileKind.SYMLINK)),
            JournalEntry(b"not utf-8 \xff", _state(), _state(permissions=0o755)),
        ),
        removed_folders=(RemovedFolder(b"folder\xfe", 0o750),),
        made_folders=(b'"new"',),
    )


@pytest.mark.parametrize("head", [CommitId("a" * 40), None])
def test_a_stored_journal_reads_back_as_it_was(tmp_path: Path, head: CommitId | None) -> None:
    journal = replace(_journal(tmp_path), head=head)
    write_journal(journal)
    assert read_journal(tmp_path) == journal
    assert journal.file.stat().st_mode & 0o777 == 0o600


def test_a_folder_without_a_journal_has_none(tmp_path: Path) -> None:
    assert read_journal(tmp_path) is None


def test_an_advance_is_stored(tmp_path: Path) -> None:
    journal = advance(_journal(tmp_path), JournalState.VERIFYING)
    assert journal.state is JournalState.VERIFYING
    assert read_journal(tmp_path) == journal


def test_a_state_cannot_be_left_out(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="applying -> verified"):
        advance(_journal(tmp_path), JournalState.VERIFIED)


def test_an_unknown_version_is_refused_by_both_numbers(tmp_path: Path) -> None:
    stored = json.loads(encode_journal(_journal(tmp_path)))
    data = json.dumps({**stored, "version": 2}).encode()
    with pytest.raises(CorruptionError, match="has version 2, but version 1 is what can be read"):
        decode_journal(data, tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"state": "finished"},
        {"surprise": 1},
        {"number": "3"},
        {"root": '"\\"'},
        {"root": '"\\9"'},
        {"version": None},
        {"slots": "/somewhere/slots-3"},
        {"slots": "/some/precious"},
        {"made_folders": ["../precious"]},
        {"made_folders": ["a//b"]},
        {"made_folders": [".GIT/hooks"]},
        {"removed_folders": [{"path": "/etc", "permissions": 493}]},
    ],
)
def test_a_damaged_journal_is_named(tmp_path: Path, change: dict[str, object]) -> None:
    stored = json.loads(encode_journal(_journal(tmp_path)))
    data = json.dumps({**stored, **change}).encode()
    with pytest.raises(CorruptionError, match=r"journal\.json is damaged"):
        decode_journal(data, tmp_path)


def test_slots_beside_the_checkout_are_its_own(tmp_path: Path) -> None:
    journal = _journal(tmp_path)
    journal = replace(journal, slots=journal.root.parent / ".pinata-0f/slots-3")
    assert decode_journal(encode_journal(journal), tmp_path) == journal


def test_a_torn_journal_is_named(tmp_path: Path) -> None:
    data = encode_journal(_journal(tmp_path))
    with pytest.raises(CorruptionError, match=r"journal\.json is damaged"):
        decode_journal(data[:-1], tmp_path)


def test_how_far_an_integration_got_is_read_without_its_plan(tmp_path: Path) -> None:
    assert read_state(tmp_path) is None
    journal = _journal(tmp_path)
    write_journal(journal)
    assert read_state(tmp_path) is JournalState.APPLYING
    advance(journal, JournalState.VERIFYING)
    assert read_state(tmp_path) is JournalState.VERIFYING


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b'{"version": 1, "state": "finished"}', r"journal\.json is damaged"),
        (b'{"version": 1, "state": ', r"journal\.json is damaged"),
        (b'{"version": 2, "state": "elsewhere"}', "has version 2"),
    ],
)
def test_a_state_that_cannot_be_read_is_named(tmp_path: Path, data: bytes, says: str) -> None:
    (tmp_path / "journal.json").write_bytes(data)
    with pytest.raises(CorruptionError, match=says):
        read_state(tmp_path)


def test_archived_journals_keep_their_number_and_are_counted(tmp_path: Path) -> None:
    assert next_number(tmp_path, None) == 1
    journal = _journal(tmp_path)
    write_journal(journal)
    assert next_number(tmp_path, journal) == 4
    archive_journal(journal)
    assert read_journal(tmp_path) is None
    tmp_path.joinpath("journal-odd.json").touch()
    assert next_number(tmp_path, None) == 4


def test_two_states_are_the_same_whoever_wrote_them_and_whenever() -> None:
    state = _state()
    assert state.same_content(replace(state, identity=FileIdentity(9, 9, 9, settled=False)))
    assert not state.same_content(replace(state, permissions=0o600))
    assert not state.same_content(replace(state, size=6))
    assert not state.same_content(replace(state, sha256="f" * 64))
    link = _state(FileKind.SYMLINK)
    assert link.same_content(replace(link, permissions=0o600))
    assert not state.same_content(replace(link, permissions=0o644))
