"""The refs under `refs/pinata/`: they keep what runs refer to, and move by compare-and-swap."""

import re
from collections.abc import Mapping

import trio

from engine.core.errors import ConflictError
from engine.core.ids import CommitId, RunId, TaskId, TreeId
from worktrees.hygiene import GitError, Repository, git
from worktrees.machine import passed

PREFIX = "refs/pinata/"
_ABSENT = "0" * 40
_OBJECT_ID = re.compile(r"[0-9a-f]{40}")


class RefMovedError(ConflictError):
    """A ref does not hold what the caller expected."""

    def __init__(self, ref: str, reason: str) -> None:
        self.ref = ref
        super().__init__(f"{ref} is not as expected: {reason}")


def run_prefix(run: RunId) -> str:
    """Return what the names of all refs of a run begin with."""
    return f"{PREFIX}{run}/"


def base_ref(run: RunId) -> str:
    """Return the ref that keeps a run's snapshot."""
    return f"{run_prefix(run)}base"


def checkout_ref(run: RunId) -> str:
    """Return the ref that keeps a snapshot for reviews, where the base is another one."""
    return f"{run_prefix(run)}checkout"


def pull_ref(run: RunId, number: int, end: str) -> str:
    """Return the ref that keeps one `end` of a fetched pull request, `base` or `head`."""
    return f"{run_prefix(run)}pr/{number}/{end}"


def evidence_ref(run: RunId) -> str:
    """Return the ref of a run's evidence commits."""
    return f"{run_prefix(run)}evidence"


def task_ref(run: RunId, task: TaskId, attempt: int) -> str:
    """Return the ref that keeps what an attempt captured.

    Attempts lie below `tasks/`, so that no task id collides with `base` or `evidence`.
    """
    return f"{run_prefix(run)}tasks/{task}/{attempt}"


async def keep(
    repo: Repository, ref: str, target: CommitId | TreeId, expect: str = "absent"
) -> None:
    """Make `ref` hold `target` if it holds `expect` now; nothing to do if it holds it already.

    Args:
        repo: where.
        ref: below `refs/pinata/`.
        target: a commit, or a tree.
        expect: an object id, or `absent`.

    Raises:
        RefMovedError: the ref holds something else.
    """
    assert ref.startswith(PREFIX)
    old = _ABSENT if expect == "absent" else expect
    passed("refs.keep.started")
    try:
        await _update(repo, ref, target, old)
    except GitError as error:
        now = await read_ref(repo, ref)
        if now == (None if expect == "absent" else expect):
            raise
        if now != target:
            raise RefMovedError(ref, f"it holds {now or 'nothing'}") from error
    passed("refs.keep.written")


async def _update(repo: Repository, *arguments: str, stdin: bytes = b"") -> None:
    # Short, and never cut off: a signal between making a lock and noting it leaves the lock.
    with trio.CancelScope(shield=True):
        await git(repo, "update-ref", "--no-deref", *arguments, stdin=stdin)


async def read_ref(repo: Repository, ref: str) -> str | None:
    """Return the object id that `ref` holds, or None."""
    verify = ("rev-parse", "--verify", "--quiet", ref)
    found = (await git(repo, *verify, ok=(0, 1))).strip().decode("ascii")
    return found if _OBJECT_ID.fullmatch(found) else None


async def list_refs(repo: Repository, prefix: str = PREFIX) -> dict[str, str]:
    """Return the refs whose names begin with `prefix`, which ends in a slash, and their ids."""
    out = await git(repo, "for-each-ref", "--format=%(objectname) %(refname)", prefix)
    pairs = (line.split(" ", 1) for line in out.decode("utf-8", "surrogateescape").splitlines())
    return {ref: object_id for object_id, ref in pairs}


async def delete_refs(repo: Repository, refs: Mapping[str, str]) -> None:
    """Delete refs below `refs/pinata/`, all or none; each must still hold the given object id.

    Raises:
        RefMovedError: one of them holds something else.
    """
    if not refs:
        return
    assert all(ref.startswith(PREFIX) for ref in refs)
    # One call is one transaction; with -z a name may hold any byte but NUL.
    orders = "".join(f"delete {ref}\0{object_id}\0" for ref, object_id in refs.items())
    passed("refs.delete.started")
    try:
        await _update(repo, "-z", "--stdin", stdin=orders.encode())
    except GitError as error:
        now = await list_refs(repo)
        for ref, object_id in refs.items():
            if now.get(ref) != object_id:
                raise RefMovedError(ref, f"it holds {now.get(ref) or 'nothing'}") from error
        raise
    passed("refs.delete.done")


async def head(repo: Repository) -> CommitId | None:
    """Return the commit that HEAD names, None on a branch without one."""
    found = await read_ref(repo, "HEAD^{commit}")
    return None if found is None else CommitId(found)
