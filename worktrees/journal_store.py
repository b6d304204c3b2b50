"""The stored form of a journal, and the file that it lies in: replaced whole at every step."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from engine.core.changes import quote_path, unquote_path
from engine.core.errors import CorruptionError
from engine.core.ids import BlobId, CommitId
from engine.core.paths import components, has_git_segment
from engine.store import JOURNAL_NAME
from engine.system import files
from worktrees.journal import (
    HIDDEN_PREFIX,
    NEXT_STATES,
    FileIdentity,
    FileKind,
    FileState,
    Journal,
    JournalEntry,
    JournalState,
    RemovedFolder,
)

_LIMIT_BYTES = 1 << 30
_VERSION = 1


class UnknownVersionError(CorruptionError):
    """A journal was written by another version of pinata."""

    def __init__(self, file: Path, version: int) -> None:
        self.version = version
        super().__init__(
            f"{file} has version {version}, but version {_VERSION} is what can be read; use the "
            "pinata that wrote it"
        )


class _Stored(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _FileStateV1(_Stored):
    type: Literal["file", "symlink"]
    mode: str
    blob: str
    permissions: int
    size: int
    sha256: str
    device: int
    inode: int
    mtime_ns: int
    settled: bool


class _EntryV1(_Stored):
    path: str
    before: _FileStateV1 | None
    after: _FileStateV1 | None


class _RemovedFolderV1(_Stored):
    path: str
    permissions: int


class _JournalV1(_Stored):
    kind: Literal["integration-journal"] = "integration-journal"
    version: Literal[1] = 1
    number: int
    state: Literal[
        "applying",
        "verifying",
        "verified",
        "applied_unverified",
        "verification_failed",
        "rolling_back",
        "rolled_back",
    ]
    evidence_digest: str
    root: str
    head: str | None
    index_digest: str
    slots: str
    entries: list[_EntryV1]
    removed_folders: list[_RemovedFolderV1]
    made_folders: list[str]
    in_one_step: bool = True
    earlier: "_JournalV1 | None" = None


class _Versioned(BaseModel):
    version: int


class _Begun(_Versioned):
    state: JournalState


def encode_journal(journal: Journal) -> bytes:
    """Return the stored form of `journal`; where it lies is not part of it."""
    return _stored_journal(journal).model_dump_json().encode("utf-8")


def _stored_journal(journal: Journal) -> _JournalV1:
    return _JournalV1(
        number=journal.number,
        state=journal.state.value,
        evidence_digest=journal.evidence_digest,
        root=quote_path(os.fsencode(journal.root)),
        head=journal.head,
        index_digest=journal.index_digest,
        slots=quote_path(os.fsencode(journal.slots)),
        entries=[
            _EntryV1(
                path=quote_path(entry.path),
                before=_stored_state(entry.before),
                after=_stored_state(entry.after),
            )
            for entry in journal.entries
        ],
        removed_folders=[
            _RemovedFolderV1(path=quote_path(gone.path), permissions=gone.permissions)
            for gone in journal.removed_folders
        ],
        made_folders=[quote_path(path) for path in journal.made_folders],
        in_one_step=journal.in_one_step,
        earlier=None if journal.earlier is None else _stored_journal(journal.earlier),
    )


def _stored_state(state: FileState | None) -> _FileStateV1 | None:
    if state is None:
        return None
    return _FileStateV1(
        type=state.kind.value,
        mode=state.mode,
        blob=state.blob,
        permissions=state.permissions,
        size=state.size,
        sha256=state.sha256,
        device=state.identity.device,
        inode=state.identity.inode,
        mtime_ns=state.identity.mtime_ns,
        settled=state.identity.settled,
    )


def decode_journal(data: bytes, folder: Path) -> Journal:
    """Return the journal that `encode_journal` turned into `data`.

    Raises:
        CorruptionError: `data` is no journal, or one of a version that is not known here.
    """
    file = folder / JOURNAL_NAME
    try:
        version = _Versioned.model_validate_json(data).version
        if version != _VERSION:
            raise UnknownVersionError(file, version)
        journal = _core_journal(_JournalV1.model_validate_json(data), folder)
    except ValidationError as error:
        raise CorruptionError(f"{file} is damaged: {error.errors()[0]['msg']}") from error
    except (ValueError, IndexError) as error:
        raise CorruptionError(f"{file} is damaged: a path in it is badly quoted") from error
    if not all(map(_names_its_own_places, journal.layers)):
        raise CorruptionError(f"{file} is damaged: it names a place that is no integration's")
    return journal


def _names_its_own_places(journal: Journal) -> bool:
    """Whether following `journal` stays inside the checkout and in a folder of slots.

    What it names is moved, and its slots are removed whole; nothing else may ever be.
    """
    place = journal.slots.parent
    hidden = place.parent == journal.root.parent and place.name.startswith(HIDDEN_PREFIX)
    in_place = journal.slots.name == f"slots-{journal.number}"
    paths = (
        *(entry.path for entry in journal.entries),
        *(gone.path for gone in journal.removed_folders),
        *journal.made_folders,
    )
    return in_place and (place == journal.folder or hidden) and all(map(_is_inside, paths))


def _is_inside(path: bytes) -> bool:
    segments = components(path)
    return not has_git_segment(path) and not {b"", b".", b".."} & set(segments)


def _core_journal(stored: _JournalV1, folder: Path) -> Journal:
    return Journal(
        folder=folder,
        number=stored.number,
        state=JournalState(stored.state),
        evidence_digest=stored.evidence_digest,
        root=_as_path(stored.root),
        head=None if stored.head is None else CommitId(stored.head),
        index_digest=stored.index_digest,
        slots=_as_path(stored.slots),
        entries=tuple(
            JournalEntry(
                unquote_path(entry.path), _core_state(entry.before), _core_state(entry.after)
            )
            for entry in stored.entries
        ),
        removed_folders=tuple(
            RemovedFolder(unquote_path(gone.path), gone.permissions)
            for gone in stored.removed_folders
        ),
        made_folders=tuple(unquote_path(path) for path in stored.made_folders),
        in_one_step=stored.in_one_step,
        earlier=None if stored.earlier is None else _core_journal(stored.earlier, folder),
    )


def _as_path(text: str) -> Path:
    return Path(os.fsdecode(unquote_path(text)))


def _core_state(stored: _FileStateV1 | None) -> FileState | None:
    if stored is None:
        return None
    return FileState(
        FileKind(stored.type),
        stored.mode,
        BlobId(stored.blob),
        stored.permissions,
        stored.size,
        stored.sha256,
        FileIdentity(stored.device, stored.inode, stored.mtime_ns, stored.settled),
    )


def write_journal(journal: Journal) -> None:
    """Store `journal` in its folder, durably; blocks.

    Raises:
        OSError: the journal before it is still in force, or only the flush failed.
    """
    files.replace_file(
        journal.file, encode_journal(journal), fault=f"journal.{journal.state.value}"
    )


def advance(journal: Journal, state: JournalState) -> Journal:
    """Store that `journal` is now in `state`, durably, and return it so; blocks.

    Raises:
        OSError: see `write_journal`.
    """
    assert state in NEXT_STATES[journal.state], f"{journal.state.value} -> {state.value}"
    advanced = replace(journal, state=state)
    write_journal(advanced)
    return advanced


def read_journal(folder: Path) -> Journal | None:
    """Return the journal in force in `folder`, or None when there is none; blocks.

    Raises:
        CorruptionError: it cannot be read.
    """
    try:
        data = files.read_regular(folder / JOURNAL_NAME, _LIMIT_BYTES)
    except FileNotFoundError:
        return None
    return decode_journal(data, folder)


def read_state(folder: Path) -> JournalState | None:
    """Return how far the integration in `folder` got, or None when there is none; blocks.

    Takes no part of the plan, which may be large, and asserts nothing about it.

    Raises:
        CorruptionError: it cannot be read.
    """
    file = folder / JOURNAL_NAME
    try:
        data = files.read_regular(file, _LIMIT_BYTES)
        version = _Versioned.model_validate_json(data).version
        if version != _VERSION:
            raise UnknownVersionError(file, version)
        return _Begun.model_validate_json(data).state
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise CorruptionError(f"{file} is damaged: {error.errors()[0]['msg']}") from error


def archive_journal(journal: Journal) -> None:
    """Keep `journal` under its number, so that the next one can take its place; blocks.

    Raises:
        OSError: the journal is still in force.
    """
    journal.file.rename(_kept_file(journal))
    files.sync_dir(journal.folder)


def supersede_journal(journal: Journal) -> None:
    """Keep a copy of `journal` under its number, while it stays in force until the next; blocks.

    Raises:
        OSError: the copy is not there, or not durable.
    """
    files.replace_file(_kept_file(journal), encode_journal(journal), fault="journal.superseded")


def reinstate_journal(journal: Journal) -> None:
    """Put the copy of `journal` in force again in place of the one that followed it; blocks.

    Raises:
        CorruptionError: the copy cannot be read.
        OSError: the one that followed is still in force, or only the flush failed.
    """
    kept = _kept_file(journal)
    write_journal(decode_journal(files.read_regular(kept, _LIMIT_BYTES), journal.folder))
    kept.unlink()


def _kept_file(journal: Journal) -> Path:
    return journal.folder / f"journal-{journal.number}.json"


def next_number(folder: Path, current: Journal | None) -> int:
    """Return the number that a new journal in `folder` gets, above all that were kept; blocks."""
    numbers = [0 if current is None else current.number]
    for path in folder.glob("journal-*.json"):
        number = path.stem.removeprefix("journal-")
        if number.isdecimal():
            numbers.append(int(number))
    return max(numbers) + 1
