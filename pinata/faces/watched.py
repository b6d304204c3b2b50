"""What is known of a run that is being watched, from all that is heard of it."""

import trio

from engine.core.events import Trace, UsageReported
from engine.core.ids import AttemptId
from engine.core.view import RunView
from engine.records.event import Logged
from pinata.work.observer import OpenedRun


class Watched:
    """An observer that keeps what a display shows, and wakes whoever draws it.

    Attributes:
        run: None until one has been opened.
        view: how it stands.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self.run: OpenedRun | None = None
        self.view = RunView()
        self._news = trio.Event()
        self._counted = set[AttemptId]()

    async def wait_news(self) -> None:
        """Return once something has happened since the last time; one waits at a time."""
        await self._news.wait()
        self._news = trio.Event()

    def wake(self) -> None:
        """Let whoever waits look, as if something had happened."""
        self._news.set()

    def run_opened(self, run: OpenedRun) -> None:
        """Take the run up as it stands, the first time or anew."""
        self.run = run
        self.view = run.view.copy()
        self.wake()

    def happened(self, logged: Logged) -> None:
        """Take an event in; traces have been taken in when they happened.

        A log may hold counts back, so that by now newer ones of the same attempt are known.
        """
        event = logged.event
        if isinstance(event, UsageReported) and event.attempt in self._counted:
            return
        self.view.apply(*logged)
        self.wake()

    def noted(self, event: Trace) -> None:
        """Take in what an agent does."""
        if isinstance(event, UsageReported):
            self._counted.add(event.attempt)
        self.view.note(event)
        self.wake()
