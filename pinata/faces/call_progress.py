"""Says how a call comes along, in a few words, seldom enough for whoever is told."""

from collections.abc import Awaitable, Callable
from typing import Final

import trio

from engine.core.events import Trace
from engine.core.outcome import Status
from engine.core.view import RunView
from engine.records.event import Logged
from pinata.faces.text import visible
from pinata.work.observer import OpenedRun

# At most four times a second; and when there is nothing new, often enough that no client takes a
# long check for a dead server.
PAUSE_S: Final = 0.25
SILENCE_S: Final = 10.0
_MOST_NAMED = 3
_ACTIVITY_CHARS = 80

Tell = Callable[[int, str], Awaitable[None]]


class CallProgress:
    """An observer that turns what it hears into short messages."""

    def __init__(self, tool: str) -> None:
        """Begin before anything has happened.

        Args:
            tool: what is called.
        """
        self._tool = tool
        self._run: OpenedRun | None = None
        self._view = RunView()
        self._news = trio.Event()

    def run_opened(self, run: OpenedRun) -> None:
        """Begin to follow the run, which may have come some way already."""
        self._run, self._view = run, run.view.copy()
        self._news.set()

    def happened(self, logged: Logged) -> None:
        """Take an event into account."""
        self._view.apply(*logged)
        self._news.set()

    def noted(self, event: Trace) -> None:
        """Take into account what an agent does."""
        self._view.note(event)
        self._news.set()

    @property
    def message(self) -> str:
        """How the call stands."""
        run = self._run
        if run is None:
            return f"{self._tool} is at work"
        tasks = self._view.tasks.values()
        settled = sum(task.status.is_final for task in tasks)
        running = [task for task in tasks if task.status is Status.RUNNING]
        parts = [f"run {run.id}: {settled} of {len(run.agents)} tasks have settled"]
        parts += [
            f"{task.task}: {visible(task.activity)[:_ACTIVITY_CHARS] or 'running'}"
            for task in running[:_MOST_NAMED]
        ]
        if len(running) > _MOST_NAMED:
            parts.append(f"{len(running) - _MOST_NAMED} more are running")
        return "; ".join(parts)

    async def report(self, tell: Tell) -> None:
        """Tell how the call stands when there is news, and now and then without; never returns.

        Args:
            tell: is given the number of the report, counted from 1, and the message.
        """
        number = 0
        while True:
            with trio.move_on_after(SILENCE_S):
                await self._news.wait()
            self._news = trio.Event()
            number += 1
            await tell(number, self.message)
            await trio.sleep(PAUSE_S)
