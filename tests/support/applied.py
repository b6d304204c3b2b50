"""What an applied journal led to."""

from worktrees.apply import results_of
from worktrees.hygiene import Repository
from worktrees.journal import Journal
from worktrees.presence import differing_paths


async def verify_applied(repo: Repository, journal: Journal) -> tuple[bytes, ...]:
    """Return the paths, sorted, that are not now what `journal` leads to, as Git stores it."""
    return await differing_paths(repo, results_of(journal), journal.folder / "verify.index")
