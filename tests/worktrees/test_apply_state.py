import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from worktrees.apply_state import is_untouched, read_state
from worktrees.journal import FileKind, FileState

LATER_NS = 1 << 62


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def read(folder: int, name: bytes) -> FileState:
    state = read_state(folder, name, now_ns=LATER_NS)
    assert state is not None
    return state


def test_what_git_does_not_store_is_nothing(folder: int, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    tmp_path.joinpath("folder").mkdir()
    assert [read_state(folder, name) for name in (b"pipe", b"folder", b"missing")] == [None] * 3


def test_a_settled_file_is_known_by_its_identity_without_being_read(
    folder: int, tmp_path: Path
) -> None:
    tmp_path.joinpath("file").write_bytes(b"one\n")
    planned = replace(read(folder, b"file"), sha256="not its digest")
    assert is_untouched(folder, b"file", planned)
    unsettled = replace(planned, identity=replace(planned.identity, settled=False))
    assert not is_untouched(folder, b"file", unsettled)


def test_an_equal_file_of_another_identity_is_untouched(folder: int, tmp_path: Path) -> None:
    tmp_path.joinpath("file").write_bytes(b"one\n")
    planned = read(folder, b"file")
    tmp_path.joinpath("other").write_bytes(b"one\n")
    assert is_untouched(folder, b"other", planned)
    tmp_path.joinpath("other").write_bytes(b"two\n")
    assert not is_untouched(folder, b"other", planned)
    assert not is_untouched(folder, b"missing", planned)


def test_permissions_count_for_a_file_and_not_for_a_link(folder: int, tmp_path: Path) -> None:
    tmp_path.joinpath("file").write_bytes(b"one\n")
    planned = read(folder, b"file")
    tmp_path.joinpath("file").chmod(0o600)
    assert not is_untouched(folder, b"file", planned)
    tmp_path.joinpath("link").symlink_to("file")
    link = read(folder, b"link")
    assert link.kind is FileKind.SYMLINK
    assert is_untouched(folder, b"link", replace(link, permissions=0))
