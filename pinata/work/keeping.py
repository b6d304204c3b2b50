"""The refs that keep a run's objects, and the proof that nobody else moved them."""

from dataclasses import dataclass, field

import trio

from engine.core.errors import ConflictError
from engine.core.ids import AttemptId, CommitId, RunId
from pinata.work.kept_refs import NamedRefs
from worktrees import refs
from worktrees.collection import keep_whole
from worktrees.evidence import ensure_evidence
from worktrees.hygiene import Repository


class ForeignRefError(ConflictError):
    """A ref below a run's prefix is not one that the run made, or not as the run left it."""

    def __init__(self, ref: str, held: str, wanted: str | None) -> None:
        self.ref = ref
        says = f"{ref} at {held} is not what the run's records say"
        if wanted is None:
            remedy = f"delete it with `git update-ref -d {ref}`"
        else:
            remedy = f"put it back with `git update-ref {ref} {wanted}`"
        super().__init__(f"{says}: {remedy}, or start a new run")


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

    async def adopt(self, named: NamedRefs) -> None:
        """Take the run's refs as they stand for the truth; called before any agent works.

        Args:
            named: what the run's records say of them.

        Raises:
            ForeignRefError: there is one that the records do not name, or name otherwise.
            ForeignEvidenceError: what the evidence ref holds is no evidence of the run.
        """
        async with self._lock:
            known = await refs.list_refs(self.repository, refs.run_prefix(self.run))
            evidence = refs.evidence_ref(self.run)
            for ref, held in known.items():
                if ref == evidence:
                    await ensure_evidence(self.repository, self.run, CommitId(held))
                elif ref not in named:
                    raise ForeignRefError(ref, held, None)
                elif named[ref] not in (None, held):
                    raise ForeignRefError(ref, held, named[ref])
            self._known = known

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
