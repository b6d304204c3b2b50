"""Shows a run while it works: plain lines, or its events as JSON lines."""

import sys
from collections.abc import Mapping

from engine.core.events import Event
from engine.core.ids import RunId, TaskId
from pinata.faces.text import event_line
from pinata.work.context import Cancel


class Progress:
    """An observer that writes to stdout; when nobody reads it any more, it falls silent."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._agents: Mapping[TaskId, str] = {}
        self._cancel: Cancel | None = None
        self._has_reader = True

    def run_opened(self, run: RunId, agents: Mapping[TaskId, str], cancel: Cancel) -> None:
        """Remember how to end the run, and say which it is."""
        self._agents = agents
        self._cancel = cancel
        if not self._as_json:
            self._write(f"run {run}\n")

    def happened(self, event: Event, line: bytes) -> None:
        """Show an event."""
        if self._as_json:
            self._write(line.decode())
        elif (shown := event_line(event, self._agents)) is not None:
            self._write(f"{shown}\n")

    def request_cancel(self, reason: str) -> bool:
        """Ask the run to end; False when there is none that could be asked."""
        if self._cancel is None:
            return False
        self._cancel(reason)
        return True

    def _write(self, output: str) -> None:
        if not self._has_reader:
            return
        try:
            sys.stdout.write(output)
            sys.stdout.flush()
        except BrokenPipeError:
            self._has_reader = False
