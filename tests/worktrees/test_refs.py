import pytest

from engine.core.ids import CommitId, RunId, TaskId, TreeId
from tests.support.repos import RUN, RepoBuilder
from worktrees.hygiene import GitError
from worktrees.refs import (
    RefMovedError,
    base_ref,
    delete_refs,
    evidence_ref,
    head,
    keep,
    list_refs,
    read_ref,
    run_prefix,
    task_ref,
)


def test_no_task_id_collides_with_the_names_of_a_run() -> None:
    names = {base_ref(RUN), evidence_ref(RUN)}
    names |= {task_ref(RUN, TaskId(task), 1) for task in ("base", "evidence", "tasks")}
    assert len(names) == 5
    assert all(name.startswith(run_prefix(RUN)) for name in names)


async def test_a_ref_keeps_a_commit_or_a_tree(repo: RepoBuilder) -> None:
    found = await repo.discovered()
    head = CommitId(repo.ask("rev-parse", "HEAD"))
    tree = TreeId(repo.ask("rev-parse", "HEAD^{tree}"))
    await keep(found, base_ref(RUN), head)
    await keep(found, task_ref(RUN, TaskId("fix"), 1), tree)
    assert await list_refs(found, run_prefix(RUN)) == {
        base_ref(RUN): head,
        task_ref(RUN, TaskId("fix"), 1): tree,
    }
    assert await read_ref(found, base_ref(RUN)) == head
    assert await read_ref(found, base_ref(RunId("other"))) is None
    assert await list_refs(found, run_prefix(RunId("other"))) == {}


async def test_a_ref_moves_only_from_what_was_expected(repo: RepoBuilder) -> None:
    found = await repo.discovered()
    first = CommitId(repo.ask("rev-parse", "HEAD"))
    second, third = repo.commit("second"), repo.commit("third")
    ref = evidence_ref(RUN)
    await keep(found, ref, first)
    await keep(found, ref, first)
    with pytest.raises(RefMovedError, match=first):
        await keep(found, ref, second)
    await keep(found, ref, second, expect=first)
    with pytest.raises(RefMovedError, match=second):
        await keep(found, ref, third, expect=first)
    with pytest.raises(RefMovedError, match="nothing"):
        await keep(found, base_ref(RUN), third, expect=first)
    assert await read_ref(found, ref) == second


async def test_an_object_that_does_not_exist_cannot_be_kept(repo: RepoBuilder) -> None:
    found = await repo.discovered()
    with pytest.raises(GitError):
        await keep(found, base_ref(RUN), CommitId("1" * 40))
    assert await list_refs(found) == {}


async def test_refs_are_deleted_all_or_none(repo: RepoBuilder) -> None:
    found = await repo.discovered()
    head = CommitId(repo.ask("rev-parse", "HEAD"))
    refs = {task_ref(RUN, TaskId("fix"), number): head for number in (1, 2, 3)}
    for ref in refs:
        await keep(found, ref, head)
    wrong = refs | {task_ref(RUN, TaskId("fix"), 3): CommitId("1" * 40)}
    with pytest.raises(RefMovedError, match="fix/3"):
        await delete_refs(found, wrong)
    assert await list_refs(found) == refs
    await delete_refs(found, refs)
    await delete_refs(found, {})
    assert await list_refs(found) == {}


async def test_a_held_lock_is_no_moved_ref(repo: RepoBuilder) -> None:
    found = await repo.discovered()
    head = CommitId(repo.ask("rev-parse", "HEAD"))
    await keep(found, base_ref(RUN), head)
    repo.write(f".git/{base_ref(RUN)}.lock", "")
    with pytest.raises(GitError, match="lock"):
        await delete_refs(found, {base_ref(RUN): head})
    with pytest.raises(GitError, match="lock"):
        await keep(found, base_ref(RUN), repo.commit("second"), expect=head)


async def test_head_names_a_commit_or_none(repo: RepoBuilder) -> None:
    found = await repo.discovered()
    assert await head(found) == repo.ask("rev-parse", "HEAD")
    repo.git("checkout", "--quiet", "--orphan", "empty")
    assert await head(found) is None
