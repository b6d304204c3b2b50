"""A worktree's folder is recognised, and nothing is written into what replaced it."""

import os
from pathlib import Path

import pytest

from engine.core.errors import CorruptionError
from worktrees.root import ReplacedWorktreeError, Root, find_root, keep_root


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "worktree"
    folder.mkdir()
    return folder


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with a file `.git`, as a linked worktree of the user's has one."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / ".git").write_text("gitdir: mine\n")
    return folder


def replace(place: Path, how: str, checkout: Path) -> None:
    place.rename(place.with_name("elsewhere"))
    if how == "link":
        place.symlink_to(checkout)
    elif how == "folder":
        checkout.rename(place)
        checkout.symlink_to(place)
    elif how == "file":
        place.write_text("x")


@pytest.mark.parametrize("how", ["link", "folder", "file", "gone"])
def test_what_replaced_a_worktree_is_told_from_it_and_left_alone(
    how: str, place: Path, checkout: Path
) -> None:
    root = Root.of(place)
    root.ensure()
    replace(place, how, checkout)
    for use in (root.ensure, lambda: root.put_git_file(b"gitdir: ours\n")):
        with pytest.raises(ReplacedWorktreeError, match=f"its worktree was replaced: {place} "):
            use()
    assert (checkout / ".git").read_text() == "gitdir: mine\n"
    assert [path.name for path in checkout.iterdir()] == [".git"]


@pytest.mark.parametrize("there", ["right", "wrong", "link", "pipe", "nothing"])
def test_git_file_is_made_what_it_was(there: str, place: Path, checkout: Path) -> None:
    file = place / ".git"
    if there in {"right", "wrong"}:
        file.write_text("gitdir: ours\n" if there == "right" else "gitdir: theirs\n")
    elif there == "link":
        file.symlink_to(checkout / ".git")
    elif there == "pipe":
        os.mkfifo(file)
    (place / ".git.pinata").write_text("left behind")
    Root.of(place).put_git_file(b"gitdir: ours\n")
    assert not file.is_symlink()
    assert file.read_text() == "gitdir: ours\n"
    assert (checkout / ".git").read_text() == "gitdir: mine\n"


def test_folder_is_found_again_by_what_was_remembered(place: Path, tmp_path: Path) -> None:
    seed, root = tmp_path / "index", Root.of(place)
    assert find_root(seed, place) == root
    keep_root(seed, root)
    assert find_root(seed, place) == root
    place.rename(tmp_path / "elsewhere")
    assert find_root(seed, place) is None
    place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ReplacedWorktreeError):
        find_root(seed, place)
    place.unlink()
    place.mkdir()
    with pytest.raises(ReplacedWorktreeError):
        find_root(seed, place)
    (tmp_path / "index.root").write_text("x")
    with pytest.raises(CorruptionError, match=r"index\.root is damaged"):
        find_root(seed, place)
