"""What all attempts of a run share while it works."""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import trio

from agents.purse import Purse
from engine.core.environment import child_environment
from engine.core.events import RepairRequested
from engine.core.ids import AttemptId, TaskId
from engine.core.spec import Kind
from engine.eventlog import EventLog
from engine.records.event import Logged
from pinata.work.keeping import Keeper
from pinata.work.own_records import OwnRecords
from pinata.work.result import SavedResult
from pinata.work.run import Run
from pinata.work.sharing import SharedMeasurement
from worktrees.hygiene import Repository
from worktrees.root import Root
from worktrees.state import StateTriple, measure


def _ignore(_: str) -> None:
    """Do nothing: there is no run yet that could be ended."""


@dataclass(slots=True)
class Workshop:
    """The run's hands: its settled results, its worktrees, its refs, its children's environment.

    Attributes:
        results: the newest of every task that has one, also of one that runs once more; written by
            the executor alone.
        feedback: what was asked for in the newest repair of each task that has one.
        fresh: tasks that begin afresh, with the attempt whose change they begin with, 0 for none.
        purse: what the run may spend, and has spent, in all its attempts.
        records: the run's own files.
        log: the run's, while it is open.
        give_up: ends the whole run for a reason.
        worktrees: of the writers whose attempts this process began.
        pulled: the worktree of each pull request that was reviewed in this process, by number.
        roots: the folders of all these worktrees, by where they were made.
        pull_turn: held while one of these is made.
        checkout_turn: held while something must not see the checkout change.
        checkout: what the user's checkout holds, measured for all who ask at about the same time.
    """

    run: Run
    results: dict[TaskId, SavedResult]
    keeper: Keeper
    purse: Purse
    records: OwnRecords
    log: EventLog | None = None
    give_up: Callable[[str], None] = _ignore
    feedback: dict[TaskId, str] = field(default_factory=dict)
    fresh: Mapping[TaskId, int] = field(default_factory=dict)
    worktrees: dict[TaskId, Repository] = field(default_factory=dict)
    pulled: dict[int, Repository] = field(default_factory=dict)
    roots: dict[Path, Root] = field(default_factory=dict)
    pull_turn: trio.Lock = field(default_factory=trio.Lock)
    checkout_turn: trio.Lock = field(default_factory=trio.Lock)
    checkout: SharedMeasurement[StateTriple] = field(init=False)

    def __post_init__(self) -> None:
        """Get ready to measure the run's checkout."""
        self.checkout = SharedMeasurement(lambda: measure(self.run.repository, self.scratch))

    async def ensure_in_place(self, place: Path) -> None:
        """Make sure that a worktree still is the folder that was made or taken up.

        Raises:
            ReplacedWorktreeError: an agent, or what it started, put something else there.
        """
        if (root := self.roots.get(place)) is not None:
            await trio.to_thread.run_sync(root.ensure)

    def happened(self, logged: Logged) -> None:
        """Learn what is to be mended, before the attempt starts that shall do it."""
        if isinstance(logged.event, RepairRequested):
            self.feedback[logged.event.task] = logged.event.feedback

    @property
    def environment(self) -> dict[str, str]:
        """What checks and agents' shells see."""
        return child_environment(self.run.context.environment, self.run.spec.config.pass_env)

    @property
    def scratch(self) -> Path:
        """A folder for private indexes."""
        return self.run.folder.scratch

    @property
    def shell(self) -> str:
        """The program that reads the text of setup and of an agent's `bash`."""
        return self.run.context.shell

    def mark(self, attempt: AttemptId) -> str:
        """Return what the processes of an attempt carry."""
        return f"{self.run.record.mark}/{attempt}"

    def writers_before(self, task: TaskId) -> tuple[TaskId, ...]:
        """Return the writers among the ancestors of `task`, predecessors before dependents."""
        above = self.run.graph.ancestors(task)
        kinds = {spec.id: spec.kind for spec in self.run.spec.tasks}
        return tuple(
            name for name in self.run.graph.order if name in above and kinds[name] is Kind.WRITER
        )


def new_entry_id() -> str:
    """Return an id for an entry of a conversation."""
    return secrets.token_hex(4)
