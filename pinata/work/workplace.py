"""Where a writer works: what it starts from, and its worktree, new or left from before."""

from dataclasses import dataclass
from pathlib import Path

import trio

from engine.core.ids import AttemptId, CommitId, TreeId
from pinata.work.blocking import in_thread
from pinata.work.draft import Draft
from pinata.work.history import unannounced
from pinata.work.places import worktree_reason
from pinata.work.result import changes_of
from pinata.work.workshop import Workshop
from worktrees.aside import put_back
from worktrees.compose import compose
from worktrees.hygiene import Repository
from worktrees.include import copy_included, forget_included
from worktrees.lease import create_worktree, remove_worktree
from worktrees.objects import commit_tree
from worktrees.reuse import bring_to, reopen_worktree
from worktrees.root import Root, find_root, forget_root, keep_root
from worktrees.unseen import forget_unseen


@dataclass(frozen=True, slots=True)
class Base:
    """What a writer starts from; a ref keeps it."""

    commit: CommitId
    tree: TreeId


@dataclass(frozen=True, slots=True)
class Workplace:
    """A writer's worktree, ready but for setup.

    Attributes:
        content: what a new worktree holds; None for one that an earlier attempt left.
    """

    base: Base
    worktree: Repository
    content: TreeId | None


async def open_workplace(workshop: Workshop, draft: Draft) -> Workplace:
    """Return where the attempt of `draft` works.

    A repaired writer goes on in the worktree that it left. When that is gone, a new one holds what
    the attempt before had come to, and a notice says so. A writer that begins afresh gets a new one
    anyhow, and whatever its lost attempt left is removed.

    Raises:
        PinataError: there is no such place.
    """
    base = await _base(workshop, draft)
    worktree = await _left_worktree(workshop, draft, base)
    content = None
    if worktree is None:
        content = await _content_before(workshop, draft, base)
        worktree = await _new_worktree(workshop, draft, base, content)
    workshop.worktrees[draft.task.id] = worktree
    return Workplace(base, worktree, content)


async def _base(workshop: Workshop, draft: Draft) -> Base:
    commit, tree = workshop.run.record.base
    before = workshop.writers_before(draft.task.id)
    if before:
        artifacts = [(task, workshop.results[task].artifact) for task in before]
        made = [(task, changes_of(found)) for task, found in artifacts if found is not None]
        tree = await compose(workshop.run.repository, tree, made)
        message = f"pinata: base of {draft.attempt} in {workshop.run.id}\n"
        commit = await commit_tree(
            workshop.run.repository, [commit], tree, message, workshop.run.context.clock.now_ms()
        )
    await workshop.keeper.keep_base(draft.attempt, commit)
    return Base(commit, tree)


async def _left_worktree(workshop: Workshop, draft: Draft, base: Base) -> Repository | None:
    if draft.attempt.number == 1:
        return None
    run = workshop.run
    path, seed = run.places.worktree(run.id, draft.task.id), run.folder.index_file(draft.task.id)
    # A garbage collection that was killed may have left it aside.
    await in_thread(lambda: put_back(path), "cannot move the worktree back")
    # Also where it is about to be removed: what somebody put in its place is not ours to remove.
    root = await trio.to_thread.run_sync(find_root, seed, path)
    if root is None or draft.task.id in workshop.fresh:
        return None
    workshop.roots[path] = root
    return await reopen_worktree(run.repository, root, base.commit)


async def _content_before(workshop: Workshop, draft: Draft, base: Base) -> TreeId:
    """Return what a new worktree is to hold: the base, or what was captured of it last."""
    folder, task = workshop.run.folder, draft.task.id
    last = workshop.fresh.get(task, draft.attempt.number - 1)
    for number in range(last, 0, -1):
        # What it holds is captured and reviewed again, so nobody has to vouch for this result.
        before = await trio.to_thread.run_sync(unannounced, folder, AttemptId(task, number))
        if before is not None and before.artifact is not None:
            why = f"attempt {draft.attempt.number - 1} was lost"
            if task not in workshop.fresh:
                why = f"the worktree of attempt {number} was gone"
            draft.notices.append(
                f"{why}: a new worktree holds the captured change of attempt {number}, and nothing "
                "that Git ignores"
            )
            return TreeId(before.artifact.result_tree)
    return base.tree


async def _new_worktree(
    workshop: Workshop, draft: Draft, base: Base, content: TreeId
) -> Repository:
    run = workshop.run
    path = run.places.worktree(run.id, draft.task.id)
    seed, lock = run.folder.index_file(draft.task.id), run.places.worktree_lock
    if draft.attempt.number > 1:
        # Git may still know the one that is gone. Which folder it was is forgotten before there is
        # another, or a crash in between would make that look like one that somebody put there.
        await remove_worktree(run.repository, path, seed, lock)
        await in_thread(lambda: _forget(seed), "cannot forget what the worktree was")
    reason = worktree_reason(run.id, draft.task.id)
    worktree = await create_worktree(run.repository, path, base.commit, seed, lock, reason)
    workshop.roots[path] = root = await trio.to_thread.run_sync(Root.of, path)
    await in_thread(lambda: keep_root(seed, root), "cannot keep what the worktree is")
    if content != base.tree:
        try:
            await bring_to(worktree, base.tree, content)
        except BaseException:
            # The next attempt must not take half of a change for all of it.
            with trio.CancelScope(shield=True):
                await remove_worktree(run.repository, path, seed, lock)
            raise
    included = await copy_included(run.repository, worktree, seed)
    draft.notices.extend(included.notes)
    return worktree


def _forget(seed: Path) -> None:
    """Forget what was known of a worktree that is gone, which is not so of the next one."""
    for forget in (forget_root, forget_included, forget_unseen):
        forget(seed)
