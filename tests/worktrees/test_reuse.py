"""A worktree that is taken up again has its files, its repository and its base."""

import shutil
from pathlib import Path

import pytest

from engine.core.errors import CorruptionError
from tests.support.repos import RepoBuilder
from tests.support.workshop import Workshop, open_workshop
from worktrees.lease import ForeignWorktreeError
from worktrees.objects import read_commit_tree
from worktrees.reuse import bring_to, reopen_worktree
from worktrees.root import Root
from worktrees.unseen import Unseen, keep_unseen, read_unseen


@pytest.fixture
async def workshop(repo: RepoBuilder, tmp_path: Path) -> Workshop:
    return await open_workshop(repo, tmp_path / "state")


async def test_worktree_that_lost_its_ties_gets_them_back_and_keeps_its_files(
    repo: RepoBuilder, workshop: Workshop
) -> None:
    base = workshop.snapshot.commit
    worktree = await workshop.worktree("fix")
    (worktree.root / "edited.txt").write_text("work\n")
    repo.git("-C", str(worktree.root), "commit", "-qam", "moved")
    (worktree.root / ".git").write_text("gitdir: /nowhere\n")
    again = await reopen_worktree(workshop.checkout, Root.of(worktree.root), base)
    assert again == worktree
    assert repo.git("-C", str(worktree.root), "rev-parse", "HEAD").decode().strip() == base
    assert (worktree.root / "edited.txt").read_text() == "work\n"
    assert [c.path for c in (await workshop.capture(worktree)).changes] == [b"edited.txt"]


async def test_branch_that_a_writer_checked_out_is_left_and_stays_where_it_is(
    repo: RepoBuilder, workshop: Workshop
) -> None:
    worktree = await workshop.worktree("fix")
    repo.git("-C", str(worktree.root), "checkout", "-q", "-b", "mine")
    mine = repo.git("rev-parse", "mine")
    await reopen_worktree(workshop.checkout, Root.of(worktree.root), workshop.snapshot.commit)
    assert (await workshop.capture(worktree)).branch is None
    assert repo.git("rev-parse", "mine") == mine


async def test_link_in_place_of_the_git_file_is_replaced_and_not_followed(
    workshop: Workshop, tmp_path: Path
) -> None:
    worktree = await workshop.worktree("fix")
    elsewhere = tmp_path / "elsewhere"
    (worktree.root / ".git").rename(elsewhere)
    (worktree.root / ".git").symlink_to(elsewhere)
    await reopen_worktree(workshop.checkout, Root.of(worktree.root), workshop.snapshot.commit)
    assert not (worktree.root / ".git").is_symlink()


async def test_folder_that_git_does_not_know_is_nobodys_worktree(workshop: Workshop) -> None:
    path = workshop.path("fix")
    path.mkdir(parents=True)
    with pytest.raises(ForeignWorktreeError):
        await reopen_worktree(workshop.checkout, Root.of(path), workshop.snapshot.commit)


async def test_new_worktree_is_brought_to_what_was_captured_before(
    repo: RepoBuilder, workshop: Workshop
) -> None:
    first = await workshop.worktree("one")
    (first.root / "edited.txt").write_text("work\n")
    (first.root / "deleted.txt").unlink()
    shutil.rmtree(first.root / "folder")
    (first.root / "folder").write_text("a file now\n")
    (first.root / "new").mkdir()
    (first.root / "new/run.sh").write_text("#!/bin/sh\n")
    (first.root / "new/run.sh").chmod(0o755)
    found = await workshop.capture(first)
    second = await workshop.worktree("two")
    await bring_to(second, workshop.snapshot.tree, found.tree)
    assert await workshop.capture(second) == found
    base = await read_commit_tree(workshop.checkout, workshop.snapshot.commit)
    assert repo.git("-C", str(second.root), "diff", "--cached", base) == b""


def test_what_lay_unseen_is_remembered_byte_for_byte(tmp_path: Path) -> None:
    seed = tmp_path / "fix"
    assert read_unseen(seed) is None
    unseen = Unseen({b"a\xff\n": "0f", b"b/": "1f"}, {b"sub": "2f"})
    keep_unseen(seed, unseen)
    assert read_unseen(seed) == unseen


@pytest.mark.parametrize("content", ["{", "[]", '{"ignored": []}', '{"ignored": 1}'])
def test_damaged_memory_of_what_lay_unseen_is_told(tmp_path: Path, content: str) -> None:
    seed = tmp_path / "fix"
    seed.with_name("fix.unseen").write_text(content)
    with pytest.raises(CorruptionError, match=r"fix\.unseen is damaged"):
        read_unseen(seed)
