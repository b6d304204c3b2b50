import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.repos import RepoBuilder
from tests.worktrees.test_contents import is_in_use
from tests.worktrees.test_discovery import leave_conflict
from worktrees.hygiene import GitError
from worktrees.state import StateTriple, look, measure


async def state_of(repo: RepoBuilder, scratch: Path) -> StateTriple:
    return await measure(await repo.discovered(), scratch)


def touch(repo: RepoBuilder) -> None:
    os.utime(repo.root / "kept.txt", (1, 1))


def refresh_index(repo: RepoBuilder) -> None:
    touch(repo)
    repo.git("status")


def write_ignored(repo: RepoBuilder) -> None:
    repo.write("x.ignored", "x")


@pytest.mark.parametrize(
    "harmless", [touch, refresh_index, write_ignored], ids=lambda do: do.__name__
)
async def test_what_changes_no_content_changes_no_state(
    harmless: Callable[[RepoBuilder], None], repo: RepoBuilder, scratch: Path
) -> None:
    before = await state_of(repo, scratch)
    harmless(repo)
    facts = repo.facts()
    assert await state_of(repo, scratch) == before
    assert repo.facts() == facts
    assert not is_in_use(scratch)


async def test_a_second_edit_of_a_dirty_file_changes_the_content(
    repo: RepoBuilder, scratch: Path
) -> None:
    repo.write("edited.txt", "once\n")
    repo.write("untracked.txt", "once\n")
    first = await state_of(repo, scratch)
    repo.write("edited.txt", "more\n")
    second = await state_of(repo, scratch)
    repo.write("untracked.txt", "more\n")
    third = await state_of(repo, scratch)
    assert len({first.content_tree, second.content_tree, third.content_tree}) == 3
    assert first.index_digest == second.index_digest == third.index_digest


async def test_staging_changes_the_index_digest_alone(repo: RepoBuilder, scratch: Path) -> None:
    repo.write("edited.txt", "after\n")
    before = await state_of(repo, scratch)
    repo.git("add", "edited.txt")
    after = await state_of(repo, scratch)
    assert after.index_digest != before.index_digest
    assert (after.head, after.content_tree) == (before.head, before.content_tree)


async def test_a_commit_of_the_same_tree_changes_the_head_alone(
    repo: RepoBuilder, scratch: Path
) -> None:
    before = await state_of(repo, scratch)
    head = repo.commit("same tree")
    after = await state_of(repo, scratch)
    assert after == StateTriple(head, before.content_tree, before.index_digest)


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree", "--chmod=+x"])
async def test_flags_of_an_entry_count(flag: str, repo: RepoBuilder, scratch: Path) -> None:
    before = await state_of(repo, scratch)
    repo.git("update-index", flag, "kept.txt")
    assert (await state_of(repo, scratch)).index_digest != before.index_digest


async def test_an_intended_file_is_told_from_an_empty_one(repo: RepoBuilder, scratch: Path) -> None:
    repo.write("empty.txt", "")
    repo.git("add", "--intent-to-add", "empty.txt")
    intended = await state_of(repo, scratch)
    repo.git("add", "empty.txt")
    staged = await state_of(repo, scratch)
    assert intended.content_tree == staged.content_tree
    assert intended.index_digest != staged.index_digest


async def test_a_branch_without_a_commit_and_an_open_merge_can_be_measured(
    repo: RepoBuilder, scratch: Path
) -> None:
    leave_conflict(repo)
    merging = await state_of(repo, scratch)
    assert repo.content(merging.content_tree, "edited.txt") == b"before\n"
    repo.git("checkout", "--quiet", "--orphan", "empty", "--force")
    assert (await state_of(repo, scratch)).head is None


async def test_a_damaged_index_is_a_failure(repo: RepoBuilder, scratch: Path) -> None:
    (repo.root / ".git/index").write_bytes(b"no index at all, and longer than a header" * 3)
    with pytest.raises(GitError, match="index"):
        await state_of(repo, scratch)
    assert not is_in_use(scratch)


async def test_a_filter_that_fails_is_a_failure(repo: RepoBuilder, scratch: Path) -> None:
    repo.git("config", "filter.broken.clean", "false")
    repo.git("config", "filter.broken.required", "true")
    repo.write(".gitattributes", "*.txt filter=broken\n")
    repo.write("new.txt", "new\n")
    with pytest.raises(GitError, match="clean filter 'broken' failed"):
        await state_of(repo, scratch)


async def test_a_look_writes_nothing_into_the_repository(repo: RepoBuilder, tmp_path: Path) -> None:
    repo.write("new.txt", "never stored before\n")
    folders = {name: tmp_path / name for name in ("scratch", 'odd:"\\name')}
    for folder in folders.values():
        folder.mkdir()
    found = await repo.discovered()
    before = repo.ask("count-objects", "-v"), repo.facts()
    seen = await look(found, folders["scratch"])
    again = await look(found, folders['odd:"\\name'])
    assert (repo.ask("count-objects", "-v"), repo.facts()) == before
    assert seen == again == await measure(found, folders["scratch"])


async def test_a_look_works_in_a_repository_with_an_odd_name(tmp_path: Path) -> None:
    repo = RepoBuilder.create(tmp_path / 'a:b "c\\d', {"a.txt": "a\n"})
    repo.write("b.txt", "b\n")
    (tmp_path / "scratch").mkdir()
    found = await repo.discovered()
    assert await look(found, tmp_path / "scratch") == await measure(found, tmp_path)
