"""Where a repository's runs, locks and worktrees lie."""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.core.errors import UsageError
from engine.core.ids import RunId, TaskId
from engine.store import runs_dir
from worktrees.hygiene import Repository


@dataclass(frozen=True, slots=True)
class Places:
    """The folders that belong to one repository.

    Attributes:
        common: Git's common folder, shared by all linked worktrees of the repository.
        state: the user's state folder; worktrees lie below it, outside the checkout and `.git`.
    """

    common: Path
    state: Path

    @classmethod
    def of(cls, repository: Repository, environment: Mapping[str, str]) -> "Places":
        """Return the places of `repository` for the user that `environment` describes.

        Raises:
            UsageError: the environment names no folder for state, or one inside the checkout.
        """
        folder = state_folder(environment)
        if folder.is_relative_to(repository.root):
            # Worktrees there would show up as the user's own files, and be cleaned away like them.
            raise UsageError(
                f"the state folder {folder} is inside the checkout: set XDG_STATE_HOME elsewhere"
            )
        return cls(repository.common_dir, folder)

    @property
    def runs(self) -> Path:
        """The folder that holds a folder for each run."""
        return runs_dir(self.common)

    @property
    def locks(self) -> Path:
        """Lock files; they lie outside what they protect and are never removed."""
        return self.runs / "locks"

    def worktrees(self, run: RunId) -> Path:
        """The folder that holds all worktrees of `run`; it need not be there."""
        name = hashlib.sha256(os.fsencode(self.common)).hexdigest()[:16]
        return self.state / "worktrees" / name / run

    def worktree(self, run: RunId, task: TaskId) -> Path:
        """Where the writer `task` of `run` works."""
        return self.worktrees(run) / task

    def pull_worktree(self, run: RunId, number: int) -> Path:
        """Where the reviewers of a pull request read; the id of a task holds no dot."""
        return self.worktree(run, TaskId(f"pr.{number}"))

    def run_lock(self, run: RunId) -> Path:
        """Held by the process that owns the run."""
        return self.locks / f"run-{run}.lock"

    @property
    def verification(self) -> Path:
        """What verifying a commit against evidence needs while it works; gone afterwards."""
        return self.runs / "verification"

    @property
    def verification_lock(self) -> Path:
        """Held while a commit is verified against evidence."""
        return self.locks / "verification.lock"

    @property
    def worktree_lock(self) -> Path:
        """Held while a worktree of the repository is being created or removed."""
        return self.locks / "worktrees.lock"

    @property
    def checkout_lock(self) -> Path:
        """Held while a destination of the repository is changed or verified."""
        return self.locks / "checkout.lock"


def worktree_reason(run: RunId, task: TaskId) -> str:
    """Return what `git worktree list` says of a writer's worktree; it is recognised by it."""
    return f"run {run} task {task}"


def pull_worktree_reason(run: RunId, number: int) -> str:
    """Return what `git worktree list` says of a pull request's worktree; see `worktree_reason`."""
    return f"run {run} pull request {number}"


def state_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder for pinata's state of the user that `environment` describes.

    Raises:
        UsageError: the environment names none, or one whose path is not UTF-8.
    """
    state = environment.get("XDG_STATE_HOME")
    if not state or not Path(state).is_absolute():
        home = environment.get("HOME")
        if not home:
            raise UsageError("neither XDG_STATE_HOME nor HOME is set: set one of them")
        state = str(Path(home) / ".local" / "state")
    folder = Path(os.path.realpath(state)) / "pinata"
    if not _is_text(str(folder)):
        raise UsageError("the path of the state folder is not UTF-8: set XDG_STATE_HOME")
    return folder


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
