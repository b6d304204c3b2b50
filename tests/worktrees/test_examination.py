from pathlib import Path

import pytest

from engine.core.errors import ConflictError
from tests.support.repos import RepoBuilder
from tests.worktrees.test_discovery import leave_conflict
from worktrees.examination import Examination, MistakenCaseError, UnfinishedOperationError, examine
from worktrees.refusal import UnmergedPathsError


async def examined(repo: RepoBuilder) -> Examination:
    before = repo.facts()
    found = await examine(await repo.discovered())
    assert repo.facts() == before
    return found


async def test_an_ordinary_checkout_needs_no_notice(repo: RepoBuilder) -> None:
    repo.write("edited.txt", "after\n")
    (repo.root / "deleted.txt").unlink()
    (repo.root / "link").symlink_to("kept.txt")
    repo.git("add", "link")
    assert await examined(repo) == Examination((), ())


async def test_a_branch_without_a_commit_is_refused(repo: RepoBuilder) -> None:
    repo.git("checkout", "--quiet", "--orphan", "empty")
    with pytest.raises(ConflictError, match="has no commit yet"):
        await examine(await repo.discovered())


async def test_an_open_merge_is_refused_naming_its_paths(repo: RepoBuilder) -> None:
    leave_conflict(repo)
    with pytest.raises(UnmergedPathsError, match=r"edited\.txt") as refused:
        await examine(await repo.discovered())
    assert refused.value.paths == (b"edited.txt",)


@pytest.mark.parametrize(
    ("left", "named"),
    [
        ("MERGE_HEAD", "a merge is"),
        ("CHERRY_PICK_HEAD", "a cherry-pick is"),
        ("REVERT_HEAD", "a revert is"),
        ("rebase-merge/done", "a rebase is"),
        ("rebase-apply/rebasing", "a rebase is"),
        ("rebase-apply/applying", "a git am is"),
    ],
)
async def test_what_is_in_progress_is_refused_by_name(
    repo: RepoBuilder, left: str, named: str
) -> None:
    repo.write(Path(".git", left), repo.ask("rev-parse", "HEAD") + "\n")
    with pytest.raises(UnfinishedOperationError, match=f"{named} in progress in .*finish or abort"):
        await examine(await repo.discovered())


async def test_a_bisection_is_not_in_the_way(repo: RepoBuilder) -> None:
    repo.git("bisect", "start")
    assert await examined(repo) == Examination((), ())


@pytest.mark.parametrize("spelling", ["true", "yes", "1"])
async def test_a_false_claim_about_capitals_is_refused(repo: RepoBuilder, spelling: str) -> None:
    repo.git("config", "core.ignoreCase", spelling)
    with pytest.raises(MistakenCaseError, match=r"run: git config core\.ignoreCase false"):
        await examine(await repo.discovered())
    repo.git("config", "core.ignoreCase", "false")
    assert await examined(repo) == Examination((), ())


async def test_a_setting_without_a_value_is_true(repo: RepoBuilder) -> None:
    with (repo.root / ".git/config").open("a") as config:
        config.write("[core]\n\tignoreCase\n")
    with pytest.raises(MistakenCaseError):
        await examine(await repo.discovered())


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
async def test_edits_behind_a_flag_are_named_and_mere_flags_are_not(
    repo: RepoBuilder, flag: str
) -> None:
    repo.git("update-index", flag, "edited.txt", "kept.txt", "folder/inner.txt")
    (repo.root / "kept.txt").touch()
    assert (await examined(repo)).notices == ()
    repo.write("edited.txt", "behind a flag\n")
    (repo.root / "folder/inner.txt").chmod(0o755)
    (notice,) = (await examined(repo)).notices
    assert notice.endswith("to be skipped: edited.txt, folder/inner.txt")


async def test_submodules_sparse_paths_and_partial_clones_are_noticed(repo: RepoBuilder) -> None:
    commit = repo.ask("rev-parse", "HEAD")
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{commit},lib")
    repo.git("update-index", "--skip-worktree", "deleted.txt")
    (repo.root / "deleted.txt").unlink()
    repo.git("config", "core.repositoryFormatVersion", "1")
    repo.git("config", "extensions.partialClone", "origin")
    found = await examined(repo)
    assert found.submodules == (b"lib",)
    lib, sparse, partial = found.notices
    assert lib.endswith("empty folders: lib")
    assert "outside of it 1 paths stay as they are committed" in sparse
    assert "partial clone" in partial
