import os
import socket

import pytest
import trio

from engine.core.ids import CommitId
from tests.support.repos import RUN, RepoBuilder
from worktrees.collection import CollectedError, keep_whole
from worktrees.refs import base_ref, list_refs

REF = base_ref(RUN)
# More than a process id can be.
NOBODY = 1 << 22 | 1


def loose(repo: RepoBuilder, object_id: str) -> None:
    """Delete an object as a collection does."""
    (repo.root / ".git/objects" / object_id[:2] / object_id[2:]).unlink()


def head(repo: RepoBuilder) -> CommitId:
    return CommitId(repo.ask("rev-parse", "HEAD"))


@pytest.mark.parametrize("lost", ["HEAD^{tree}", "HEAD:in", "HEAD:in/new.txt"])
async def test_a_commit_that_lost_a_part_is_not_kept(lost: str, repo: RepoBuilder) -> None:
    found = await repo.discovered()
    first = head(repo)
    repo.write("in/new.txt", "new\n")
    second = repo.commit("second")
    loose(repo, repo.ask("rev-parse", lost))
    with pytest.raises(CollectedError, match="call again"):
        await keep_whole(found, REF, second)
    assert await list_refs(found) == {}
    await keep_whole(found, REF, first)
    with pytest.raises(CollectedError):
        await keep_whole(found, REF, second, first)
    assert await list_refs(found) == {REF: first}


async def test_a_collection_is_waited_for(repo: RepoBuilder) -> None:
    found = await repo.discovered()
    note = repo.write(".git/gc.pid", f"{os.getpid()} {socket.gethostname()}")
    with trio.move_on_after(0.1) as scope:
        await keep_whole(found, REF, head(repo))
    assert scope.cancelled_caught
    assert await list_refs(found) == {}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keep_whole, found, REF, head(repo))
        note.unlink()
    assert await list_refs(found) == {REF: head(repo)}


@pytest.mark.parametrize("note", ["{dead} {host}", "{alive} elsewhere.invalid", "", "x {host}"])
async def test_a_note_of_no_live_collection_is_passed_over(note: str, repo: RepoBuilder) -> None:
    found = await repo.discovered()
    values = {"dead": NOBODY, "alive": os.getpid()}
    repo.write(".git/gc.pid", note.format(**values, host=socket.gethostname()))
    await keep_whole(found, REF, head(repo))
    assert await list_refs(found) == {REF: head(repo)}
