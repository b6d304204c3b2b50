"""A snapshot and the worktrees made of it, for tests."""

from dataclasses import dataclass
from pathlib import Path

from engine.core.ids import CommitId, TreeId
from tests.support.repos import RUN, RepoBuilder
from worktrees.capture import Capture, capture
from worktrees.hygiene import Repository
from worktrees.lease import create_worktree
from worktrees.snapshot import Snapshot, take_snapshot


@dataclass(frozen=True, slots=True)
class Workshop:
    """A checkout's snapshot and the worktrees made of it."""

    checkout: Repository
    snapshot: Snapshot
    state: Path

    @property
    def scratch(self) -> Path:
        """The folder for private indexes."""
        return self.state / "scratch"

    def seed(self, name: str) -> Path:
        """Return where the engine's own index of a worktree lies."""
        return self.state / "indexes" / name

    def path(self, name: str) -> Path:
        """Return where a worktree lies."""
        return self.state / "worktrees" / name

    @property
    def lock(self) -> Path:
        """The lock that serialises creations."""
        return self.state / "lock"

    async def worktree(self, name: str, commit: CommitId | None = None) -> Repository:
        """Make a worktree of the snapshot, or of `commit`."""
        at = commit or self.snapshot.commit
        return await create_worktree(
            self.checkout, self.path(name), at, self.seed(name), self.lock, f"run-1/{name}"
        )

    async def capture(self, worktree: Repository, base: TreeId | None = None) -> Capture:
        """Capture one of the worktrees."""
        seed = self.seed(worktree.root.name)
        return await capture(worktree, base or self.snapshot.tree, seed, self.scratch)


async def open_workshop(repo: RepoBuilder, state: Path) -> Workshop:
    """Take a snapshot of `repo` and return what is needed to work with it."""
    checkout = await repo.discovered()
    scratch = state / "scratch"
    scratch.mkdir(parents=True)
    snapshot = await take_snapshot(checkout, RUN, scratch, include_uncommitted=True)
    return Workshop(checkout, snapshot, state)
