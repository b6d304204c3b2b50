"""The refs that keep a run's objects, and the proof that nobody else moved them."""

from dataclasses import dataclass, field

import trio

from engine.core.ids import AttemptId, CommitId, RunId
from worktrees import refs
from worktrees.collection import keep_whole
from worktrees.hygiene import Repository


@dataclass(slots=True)
class Keeper:
    """Writes a run's keep-refs and remembers what it wrote.

    Whoever has a shell can move refs below `refs/pinata/`. What this process remembers is the
    truth that they are compared with.
    """

    repository: Repository
    run: RunId
    _known: dict[str, str] = field(default_factory=dict)
    _lock: trio.Lock = field(default_factory=trio.Lock)

    async def adopt(self) -> None:
        """Take the run's refs as they stand for the truth; called before any agent works."""
        async with self._lock:
            self._known = await refs.list_refs(self.repository, refs.run_prefix(self.run))

    async def keep_base(self, attempt: AttemptId, commit: CommitId) -> None:
        """Keep what an attempt starts from.

        Raises:
            RefMovedError: the attempt has a ref already.
        """
        await self._move(attempt, commit, None)

    async def keep_result(self, attempt: AttemptId, commit: CommitId, before: CommitId) -> None:
        """Keep what an attempt came to, instead of `before`, which is its parent.

        Raises:
            RefMovedError: the ref is not at `before`.
        """
        await self._move(attempt, commit, before)

    async def _move(self, attempt: AttemptId, commit: CommitId, expect: CommitId | None) -> None:
        ref = refs.task_ref(self.run, attempt.task, attempt.number)
        async with self._lock:
            await keep_whole(self.repository, ref, commit, expect)
            self._known[ref] = commit

    async def moved_by_others(self) -> tuple[str, ...]:
        """Return the run's refs that are not as this process left them, sorted."""
        async with self._lock:
            found = await refs.list_refs(self.repository, refs.run_prefix(self.run))
            names = found.keys() | self._known.keys()
            return tuple(sorted(n for n in names if found.get(n) != self._known.get(n)))
