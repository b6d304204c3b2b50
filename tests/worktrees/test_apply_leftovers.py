from dataclasses import replace
from pathlib import Path

import pytest

from worktrees.apply_leftovers import list_leftovers
from worktrees.apply_slots import hidden_place
from worktrees.journal import Journal, JournalState


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "beside" / "checkout"
    made.mkdir(parents=True)
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "integration"
    made.mkdir()
    return made


def journal(folder: Path, root: Path, slots: Path, number: int = 1) -> Journal:
    return Journal(
        folder=folder,
        number=number,
        state=JournalState.VERIFIED,
        evidence_digest="",
        root=root,
        head=None,
        index_digest="",
        slots=slots,
        entries=(),
        removed_folders=(),
        made_folders=(),
    )


def filled(path: Path) -> Path:
    path.mkdir(parents=True)
    (path / "0").write_text("old\n")
    return path


def test_slots_of_what_is_in_force_stay_with_those_that_it_lies_upon(
    folder: Path, root: Path
) -> None:
    first, second, dead = (filled(folder / f"slots-{number}") for number in (1, 2, 3))
    below = journal(folder, root, first)
    newest = replace(journal(folder, root, second, 2), earlier=below)
    assert list_leftovers(folder, root, newest) == (dead,)
    assert list_leftovers(folder, root, None) == (first, second, dead)
    rolled_back = replace(newest, state=JournalState.ROLLED_BACK)
    assert list_leftovers(folder, root, rolled_back) == (first, second, dead)


def test_hidden_folder_goes_whole_once_nothing_in_it_is_needed(folder: Path, root: Path) -> None:
    hidden = hidden_place(folder, root)
    needed, dead = filled(hidden / "slots-1"), filled(hidden / "slots-2")
    in_force = journal(folder, root, needed)
    assert list_leftovers(folder, root, in_force) == (dead,)
    assert list_leftovers(folder, root, None) == (hidden,)
    (hidden / "mine.txt").write_text("mine\n")
    assert list_leftovers(folder, root, None) == (needed, dead)


def test_only_what_an_integration_makes_is_taken_for_its_leftovers(
    folder: Path, root: Path
) -> None:
    index = filled(folder / "index-a1_b2c3d")
    for name in ("receipts", "slots-x", "slots-1.old"):
        filled(folder / name)
    (folder / "journal-1.json").write_text("{}")
    (folder / "slots-9").symlink_to(root)
    (folder / "slots-8").write_text("a file\n")
    hidden_place(folder, root).symlink_to(root)
    filled(root.parent / ".pinata-0123456789abcdef" / "slots-1")
    assert list_leftovers(folder, root, None) == (index,)


def test_run_that_was_never_integrated_left_nothing(tmp_path: Path) -> None:
    assert list_leftovers(tmp_path / "none", tmp_path / "gone" / "checkout", None) == ()
    (tmp_path / "file").write_text("")
    assert list_leftovers(tmp_path / "none", tmp_path / "file" / "checkout" / "root", None) == ()
