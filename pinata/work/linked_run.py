"""A run as those see it who reach it from other processes, kept by the process that owns it."""

import secrets

import trio

from engine.core.events import Sender, Trace
from engine.core.ids import TaskId
from engine.core.outcome import Status
from engine.records.event import Logged, encode_event
from engine.records.link import FactsV1
from engine.system.clock import Clock
from pinata.work.ending import ask_end
from pinata.work.link_ring import Doings, Entry, Ring
from pinata.work.observer import OpenedRun

_REASONS = {
    Sender.USER: "cancelled by the user, from another process",
    Sender.PARENT: "cancelled by the coordinator",
}


class LinkedRun:
    """How a run stands, what happened lately, and how to reach into it.

    Attributes:
        token: whoever knows it may read the run's own files.
        view: folded from the log alone.
        doings: what a viewer is told beside that, of a lean run.
        ring: holds something while there are viewers only.
        times_opened: how often the run was opened in this process; viewers begin anew each time.
        is_settled: nothing more happens, and its end is in the log.
        viewers: how many were let in and have not left.
        unneeded: set once nobody needs the link any more that was made when the run was opened.
        is_leaving: this process has nothing more to say of it.
        news: whoever parks here goes on when anything of this changes.
    """

    def __init__(self, opened: OpenedRun, clock: Clock, *, is_lean: bool) -> None:
        """Begin with a run that is about to work.

        Args:
            opened: the run.
            clock: of the times that notes carry.
            is_lean: its log leaves out what only shows what agents do, so viewers get that as it
                happens; else they get all of it from the log.
        """
        self.token = secrets.token_hex(32)
        self.ring = Ring()
        self.news = trio.lowlevel.ParkingLot()
        self._clock = clock
        self._is_lean = is_lean
        self.viewers = 0
        self.unneeded = trio.Event()
        self._is_over = trio.Event()
        self.times_opened = 0
        self.reopen(opened)

    def reopen(self, opened: OpenedRun) -> None:
        """Go on with a run that is about to work; see above."""
        self._opened = opened
        self._view_seq = opened.view.seq
        self.view = opened.view.copy()
        self.doings = Doings()
        self.ring.clear()
        self.times_opened += 1
        self.is_settled = self.is_leaving = False
        self.unneeded.set()  # a link that is still there makes room for the next
        self.unneeded, self._is_over = trio.Event(), trio.Event()
        self.news.unpark_all()

    @property
    def run(self) -> OpenedRun:
        """The run that is reached."""
        return self._opened

    @property
    def facts(self) -> FactsV1:
        """What is fixed about the run."""
        run = self._opened
        return FactsV1(
            run=run.id,
            folder=str(run.folder),
            started_at_ms=run.started_at_ms,
            agents=dict(run.agents),
            after={task: list(after) for task, after in run.after.items()},
            notices=list(run.notices),
        )

    def happened(self, logged: Logged) -> None:
        """Take an event that was written."""
        self.view.apply(*logged)
        self.doings.happened(logged.event)
        if self.viewers:
            line = encode_event(logged.event, seq=logged.seq, run=self.run.id, at_ms=logged.at_ms)
            self._tell(Entry(line[:-1], is_note=False))

    def noted(self, event: Trace) -> None:
        """Take what an agent does."""
        if self._is_lean:
            self.doings.noted(event)
            if self.viewers:
                self._tell(self.note(event))

    def note(self, event: Trace) -> Entry:
        """Return a note of what an agent does; the number in it means nothing."""
        line = encode_event(event, seq=0, run=self.run.id, at_ms=self._clock.now_ms())
        return Entry(line[:-1], is_note=True)

    def _tell(self, entry: Entry) -> None:
        self.ring.append(entry)
        self.news.unpark_all()

    def finish(self) -> None:
        """Take it that nothing more happens; a run that did not settle is given up."""
        self.is_settled = self._has_settled()
        self.is_leaving = self.is_leaving or not self.is_settled
        self._is_over.set()
        self._look_for_viewers()
        self.news.unpark_all()

    def leave(self) -> None:
        """Say the last, and serve nobody any more."""
        self.is_leaving = True
        self.unneeded.set()
        self.news.unpark_all()

    def viewer_came(self) -> None:
        """Keep what happens, for one more viewer."""
        self.viewers += 1

    def viewer_left(self) -> None:
        """Keep nothing that no viewer needs; the last viewer of a settled run ends its link."""
        self.viewers -= 1
        self._look_for_viewers()

    def _look_for_viewers(self) -> None:
        if not self.viewers:
            self.ring.clear()
            if self.is_settled or self.is_leaving:
                self.unneeded.set()

    def steer(self, task: TaskId, text: str, *, follow_up: bool, sender: Sender) -> None:
        """Leave a message for a running agent; see `SteerTask`."""
        self._opened.steer(task, text, follow_up=follow_up, sender=sender)

    async def cancel(self, task: TaskId | None, sender: Sender) -> bool:
        """Ask for the end of the run, or of one task; see `ask_end`."""
        return await ask_end(
            self._opened, _REASONS[sender], task, standing=self._standing, is_over=self._is_over
        )

    def _standing(self, task: TaskId | None) -> Status:
        if task is not None:
            seen = self.view.tasks.get(task)
            return Status.QUEUED if seen is None else seen.status
        return self.view.status if self._has_settled() else Status.RUNNING

    def _has_settled(self) -> bool:
        """Whether the run has, since it was opened."""
        return self.view.settled_at_ms is not None and self.view.seq > self._view_seq
