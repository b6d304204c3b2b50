"""Shows a run on a terminal while it works: a table that is drawn anew, the latest frame wins."""

import io
import math
from collections.abc import Callable

import trio
from rich.console import Console
from rich.live import Live
from rich.text import Text

from engine.core.events import Trace
from engine.core.view import RunView
from engine.records.event import Logged
from engine.system.clock import Clock
from pinata.faces import output
from pinata.faces.board import board
from pinata.faces.frame import frame
from pinata.faces.text import notice_lines, short
from pinata.faces.watched import Watched
from pinata.work.observer import OpenedRun

# Often enough for clocks that show seconds; what happens is drawn sooner.
_REDRAW_S = 1.0
_PAUSE_S = 0.1
# Title, headings, what is hidden, the total, and the line that the cursor is on.
_OTHER_LINES = 5


class _Screen(io.StringIO):
    """Stdout as a file that never fails; see `pinata.faces.output`."""

    def __init__(self, write: Callable[[str], bool]) -> None:
        super().__init__()
        self._write = write

    def write(self, text: str) -> int:
        self._write(text)
        return len(text)

    def isatty(self) -> bool:
        return True


class LiveView:
    """A display for terminals; it draws in another thread, so that a slow one slows no run."""

    def __init__(
        self,
        clock: Clock,
        *,
        write: Callable[[str], bool] = output.write,
        width: int | None = None,
        height: int | None = None,
    ) -> None:
        """Begin with an empty screen.

        Args:
            clock: for the time that tasks have taken so far.
            write: takes what goes to the terminal; may block.
            width: in columns, the terminal's own by default.
            height: in lines, the terminal's own by default.
        """
        self._clock = clock
        self._console = Console(
            file=_Screen(write), force_terminal=True, width=width, height=height, highlight=False
        )
        self._watched = Watched()
        self._has_ended = False

    def run_opened(self, run: OpenedRun) -> None:
        """Begin to show the run, which may have come some way already."""
        self._watched.run_opened(run)

    def happened(self, logged: Logged) -> None:
        """Show an event; traces have been shown when they happened."""
        self._watched.happened(logged)

    def noted(self, event: Trace) -> None:
        """Show what an agent does."""
        self._watched.noted(event)

    def request_cancel(self, reason: str) -> bool:
        """Ask the run to end; False when there is none that could be asked."""
        if self._watched.run is None:
            return False
        self._watched.run.cancel(reason)
        return True

    def end(self) -> None:
        """Say that nothing more happens, which lets `show` return once all is shown."""
        self._has_ended = True
        self._watched.wake()

    async def show(self) -> None:
        """Draw until `end`; the last frame stays on the screen."""
        live = Live(
            console=self._console,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="crop",
        )
        try:
            while not self._has_ended:
                with trio.move_on_after(_REDRAW_S if self._watched.run is not None else math.inf):
                    await self._watched.wait_news()
                await self._draw(live)
                await trio.sleep(_PAUSE_S)
            await self._draw(live)
        finally:
            # The cursor comes back even when the second interruption cuts the drawing short.
            with trio.CancelScope(shield=True), trio.move_on_after(_REDRAW_S):
                await trio.to_thread.run_sync(live.stop, abandon_on_cancel=True)

    async def _draw(self, live: Live) -> None:
        run = self._watched.run
        if run is None:
            return
        view, now_ms = self._watched.view.copy(), self._clock.now_ms()
        await trio.to_thread.run_sync(
            lambda: _refresh(live, run, view, now_ms), abandon_on_cancel=True
        )


def _refresh(live: Live, run: OpenedRun, view: RunView, now_ms: int) -> None:
    size = live.console.size
    shown = board(short(run.id), view, run.after, now_ms, max(1, size.height - _OTHER_LINES))
    if not live.is_started:
        for notice in notice_lines({"notices": run.notices}, size.width):
            live.console.print(Text(notice))
    live.start()
    live.update(frame(shown, size.width), refresh=True)
