"""Shows a run while it works: plain lines, or its events as JSON lines."""

import math

import trio

from engine.core.events import Trace
from engine.core.quote import escape_json
from engine.records.event import Logged, encode_event
from pinata.faces import output
from pinata.faces.command import width
from pinata.faces.event_text import log_line
from pinata.faces.text import notice_lines
from pinata.work.observer import OpenedRun


class Progress:
    """An observer that writes to stdout from another thread, so that a slow reader slows no run."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._run: OpenedRun | None = None
        self._notices: list[str] = []
        self._lines, self._to_show = trio.open_memory_channel[str](math.inf)

    def run_opened(self, run: OpenedRun) -> None:
        """Remember how to end the run, and say which it is."""
        self._run = run
        self._notices += notice_lines({"notices": run.notices}, width())
        if not self._as_json:
            self._lines.send_nowait(f"run {run.id}\n")

    def happened(self, logged: Logged) -> None:
        """Show an event."""
        run = self._run
        assert run is not None
        if self._as_json:
            line = encode_event(logged.event, seq=logged.seq, run=run.id, at_ms=logged.at_ms)
            self._lines.send_nowait(escape_json(line.decode()))
        elif (shown := log_line(logged, run.started_at_ms, run.agents)) is not None:
            self._lines.send_nowait(f"{shown}\n")

    def noted(self, event: Trace) -> None:
        """Do nothing: what lasts comes with the log."""

    def request_cancel(self, reason: str) -> bool:
        """Ask the run to end; False when there is none that could be asked."""
        if self._run is None:
            return False
        self._run.cancel(reason)
        return True

    def end(self) -> None:
        """Say that nothing more happens, which lets `show` return once all is shown."""
        self._lines.close()

    async def show(self) -> None:
        """Write what is to be shown until `end`."""
        async for line in self._to_show:
            text = line + self._waiting()
            await trio.to_thread.run_sync(self._write, text, abandon_on_cancel=True)

    def _write(self, text: str) -> None:
        """Write to stdout, and first to stderr what nobody should learn too late."""
        for notice in self._notices:
            output.note(notice)
        self._notices.clear()
        output.write(text)

    def _waiting(self) -> str:
        lines = []
        while True:
            try:
                lines.append(self._to_show.receive_nowait())
            except (trio.WouldBlock, trio.EndOfChannel):
                return "".join(lines)
