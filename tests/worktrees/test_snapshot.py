from pathlib import Path

import pytest

from engine.core.errors import ConflictError
from engine.core.ids import RunId
from tests.support.repos import RUN, RepoBuilder
from tests.worktrees.test_discovery import leave_conflict
from worktrees.refs import RefMovedError, base_ref
from worktrees.refusal import UnmergedPathsError
from worktrees.snapshot import RestlessCheckoutError, Snapshot, take_snapshot


async def snapshot_of(
    repo: RepoBuilder, scratch: Path, *, run: RunId = RUN, include_uncommitted: bool = True
) -> Snapshot:
    found = await repo.discovered()
    return await take_snapshot(found, run, scratch, include_uncommitted=include_uncommitted)


def make_dirty(repo: RepoBuilder) -> None:
    """Leave one staged, one modified, one deleted, one untracked and one ignored file."""
    repo.write("staged.txt", "staged\n")
    repo.git("add", "staged.txt")
    repo.write("edited.txt", "after\n")
    (repo.root / "deleted.txt").unlink()
    repo.write("untracked.txt", "untracked\n")
    repo.write("secret.ignored", "ignored\n")


async def test_a_snapshot_holds_what_is_not_ignored_and_touches_nothing(
    repo: RepoBuilder, scratch: Path
) -> None:
    make_dirty(repo)
    before = repo.facts()
    snapshot = await snapshot_of(repo, scratch)
    assert repo.facts() == before
    listing = repo.listing(snapshot.tree)
    assert sorted(listing) == [
        b".gitignore",
        b"edited.txt",
        b"folder/inner.txt",
        b"kept.txt",
        b"staged.txt",
        b"untracked.txt",
    ]
    assert repo.content(snapshot.tree, "edited.txt") == b"after\n"
    assert snapshot.uncommitted == (
        b"deleted.txt",
        b"edited.txt",
        b"staged.txt",
        b"untracked.txt",
    )
    assert snapshot.head == repo.ask("rev-parse", "HEAD")
    assert repo.ask("rev-parse", f"{snapshot.commit}^") == snapshot.head
    assert repo.ask("rev-parse", f"{snapshot.commit}^{{tree}}") == snapshot.tree
    assert repo.ask("rev-parse", base_ref(RUN)) == snapshot.commit


async def test_a_clean_checkout_is_its_own_snapshot_and_is_kept_too(
    repo: RepoBuilder, scratch: Path
) -> None:
    snapshot = await snapshot_of(repo, scratch)
    assert snapshot.commit == snapshot.head == repo.ask("rev-parse", base_ref(RUN))
    assert (snapshot.uncommitted, snapshot.notes) == ((), ())


async def test_uncommitted_work_can_be_left_out(repo: RepoBuilder, scratch: Path) -> None:
    make_dirty(repo)
    snapshot = await snapshot_of(repo, scratch, include_uncommitted=False)
    assert snapshot.commit == snapshot.head
    assert snapshot.tree == repo.ask("rev-parse", "HEAD^{tree}")
    assert repo.ask("rev-parse", base_ref(RUN)) == snapshot.head


async def test_the_commit_is_by_a_fixed_identity_and_unsigned(
    repo: RepoBuilder, scratch: Path
) -> None:
    make_dirty(repo)
    repo.git("config", "commit.gpgSign", "true")
    repo.git("config", "user.name", "Somebody Else")
    snapshot = await snapshot_of(repo, scratch)
    text = repo.ask("cat-file", "commit", snapshot.commit)
    assert "author pinata <pinata@localhost> " in text
    assert "committer pinata <pinata@localhost> " in text
    assert "gpgsig" not in text


async def test_taking_it_again_gives_the_same_commit_and_other_contents_are_refused(
    repo: RepoBuilder, scratch: Path
) -> None:
    make_dirty(repo)
    first = await snapshot_of(repo, scratch)
    assert await snapshot_of(repo, scratch) == first
    repo.write("edited.txt", "and again\n")
    with pytest.raises(RefMovedError, match=base_ref(RUN)):
        await snapshot_of(repo, scratch)
    assert (await snapshot_of(repo, scratch, run=RunId("run-2"))).commit != first.commit


async def test_a_sparse_checkout_keeps_what_lies_outside(repo: RepoBuilder, scratch: Path) -> None:
    repo.write("outside/far.txt", "far\n")
    repo.commit("more")
    repo.git("sparse-checkout", "set", "--cone", "folder")
    repo.write("folder/inner.txt", "changed\n")
    snapshot = await snapshot_of(repo, scratch)
    expected = repo.listing("HEAD") | {
        b"folder/inner.txt": ("100644", repo.store(b"changed\n")),
    }
    assert repo.listing(snapshot.tree) == expected


async def test_a_linked_worktree_can_be_the_checkout(
    repo: RepoBuilder, scratch: Path, tmp_path: Path
) -> None:
    repo.git("worktree", "add", "--quiet", str(tmp_path / "linked"))
    linked = RepoBuilder(tmp_path / "linked", repo.env)
    make_dirty(linked)
    before, beside = linked.facts(), repo.facts()
    snapshot = await snapshot_of(linked, scratch)
    assert (linked.facts(), repo.facts()) == (before, beside)
    assert linked.content(snapshot.tree, "edited.txt") == b"after\n"


async def test_the_snapshot_survives_the_strictest_garbage_collection(
    repo: RepoBuilder, scratch: Path
) -> None:
    make_dirty(repo)
    snapshot = await snapshot_of(repo, scratch)
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "--quiet", "--prune=now")
    assert repo.content(snapshot.commit, "untracked.txt") == b"untracked\n"


async def test_an_open_merge_and_a_missing_commit_are_refused(
    repo: RepoBuilder, scratch: Path
) -> None:
    leave_conflict(repo)
    with pytest.raises(UnmergedPathsError):
        await snapshot_of(repo, scratch)
    repo.git("checkout", "--quiet", "--orphan", "empty", "--force")
    for included in (True, False):
        with pytest.raises(ConflictError, match="has no commit yet"):
            await snapshot_of(repo, scratch, include_uncommitted=included)


async def test_a_nested_repository_is_noted(repo: RepoBuilder, scratch: Path) -> None:
    repo.git("init", "--quiet", "nested")
    snapshot = await snapshot_of(repo, scratch)
    assert snapshot.commit == snapshot.head
    assert snapshot.notes == ("nested/ is a repository of its own and is left out",)


def restless(repo: RepoBuilder, edit: str) -> None:
    """Let each reading of a filtered file change the checkout once more."""
    script = repo.home / "restless"
    script.write_text(f"#!/bin/sh\ncd {repo.root}\n{edit}\ncat\n")
    script.chmod(0o755)
    repo.write(".gitattributes", "*.live filter=live\n")
    repo.write("x.live", "x")
    repo.git("config", "filter.live.clean", str(script))


async def test_a_checkout_that_never_rests_is_refused(repo: RepoBuilder, scratch: Path) -> None:
    restless(repo, "echo more >> kept.txt")
    with pytest.raises(RestlessCheckoutError, match="kept changing"):
        await snapshot_of(repo, scratch)
    assert repo.git("for-each-ref", "refs/pinata") == b""


async def test_an_edit_in_the_middle_is_part_of_the_next_try(
    repo: RepoBuilder, scratch: Path
) -> None:
    restless(repo, "test -e late.txt || echo late > late.txt")
    snapshot = await snapshot_of(repo, scratch)
    assert repo.content(snapshot.tree, "late.txt") == b"late\n"


async def test_staging_in_the_middle_starts_another_try(repo: RepoBuilder, scratch: Path) -> None:
    git = "env -u GIT_DIR -u GIT_INDEX_FILE -u GIT_WORK_TREE git"
    repo.write("forced.ignored", "forced\n")
    restless(repo, f"{git} ls-files --error-unmatch forced.ignored || {git} add -f forced.ignored")
    snapshot = await snapshot_of(repo, scratch)
    assert repo.content(snapshot.tree, "forced.ignored") == b"forced\n"


async def test_a_missing_index_counts_as_an_empty_one(repo: RepoBuilder, scratch: Path) -> None:
    (repo.root / ".git/index").unlink()
    snapshot = await snapshot_of(repo, scratch)
    assert snapshot.tree == repo.ask("rev-parse", "HEAD^{tree}")
    assert repo.facts()["index"] == b""
