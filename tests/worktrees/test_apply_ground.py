from pathlib import Path

import pytest

from engine.core.changes import Change, ChangeStatus
from engine.core.ids import BlobId
from tests.support.privileges import unprivileged
from worktrees.apply_ground import Ground, survey
from worktrees.apply_plan import PathConflict
from worktrees.folders import Folders
from worktrees.journal import RemovedFolder

_ZERO, _BLOB = BlobId("0" * 40), BlobId("1" * 40)
ADD = Change(b"new/added", ChangeStatus.ADDED, "000000", "100644", _ZERO, _BLOB)
DELETE = Change(b"folder/inner", ChangeStatus.DELETED, "100644", "000000", _BLOB, _ZERO)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    tmp_path.joinpath("folder").mkdir()
    tmp_path.joinpath("folder/inner").write_bytes(b"inner\n")
    return tmp_path


def look(root: Path, *changes: Change, device: int | None = None) -> Ground:
    with Folders(root) as folders:
        return survey(folders, changes, root.stat().st_dev if device is None else device, 0)


def test_folders_that_come_and_go_are_planned_with_their_permissions(root: Path) -> None:
    root.joinpath("folder").chmod(0o750)
    ground = look(root, DELETE, ADD)
    assert ground.conflicts == ()
    assert ground.removed_folders == (RemovedFolder(b"folder", 0o750),)
    assert ground.made_folders == (b"new",)


def test_a_folder_that_is_needed_again_is_neither_removed_nor_made(root: Path) -> None:
    again = Change(b"folder/other", ChangeStatus.ADDED, "000000", "100644", _ZERO, _BLOB)
    ground = look(root, DELETE, again)
    assert (ground.removed_folders, ground.made_folders) == ((), ())


def test_folders_on_another_file_system_are_named_once(root: Path) -> None:
    reason = "is on another file system than the checkout"
    assert look(root, DELETE, ADD, device=0).conflicts == (
        PathConflict(b"folder", reason),
        PathConflict(b".", reason),
    )


def test_a_folder_that_cannot_be_written_is_named(root: Path) -> None:
    root.joinpath("folder").chmod(0o500)
    ground = unprivileged(lambda: look(root, DELETE))
    assert ground.conflicts == (PathConflict(b"folder", "cannot be written"),)


def test_the_folder_above_one_that_goes_must_be_writable_too(root: Path) -> None:
    root.chmod(0o500)
    ground = unprivileged(lambda: look(root, DELETE))
    root.chmod(0o700)
    assert ground.conflicts == (PathConflict(b".", "cannot be written"),)


def test_a_file_that_cannot_be_read_is_named(root: Path) -> None:
    root.joinpath("folder/inner").chmod(0)
    ground = unprivileged(lambda: look(root, DELETE))
    assert ground.conflicts == (PathConflict(b"folder/inner", "cannot be read"),)


@pytest.mark.parametrize("inside", ["folder/empty", "folder/full/mine"])
def test_a_folder_that_becomes_a_file_must_hold_nothing_else(root: Path, inside: str) -> None:
    root.joinpath(inside).mkdir(parents=True)
    become = Change(b"folder", ChangeStatus.ADDED, "000000", "100644", _ZERO, _BLOB)
    reason = "is a folder that holds something else"
    assert look(root, become, DELETE).conflicts == (PathConflict(b"folder", reason),)
