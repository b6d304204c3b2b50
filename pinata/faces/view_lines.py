"""A view of a run as lines: its log is what is printed, its owner says when to look."""

from collections.abc import AsyncIterator

import trio

from engine.core.errors import PinataError
from engine.core.events import Trace
from engine.records.event import Logged
from engine.system.nursery import open_flat_nursery
from pinata.faces.logs import LogPrinter
from pinata.faces.view_state import Ending
from pinata.work.observer import OpenedRun
from pinata.work.viewed import Source


class _Bell:
    """An observer that rings when the log has grown."""

    def __init__(self) -> None:
        self.rung = trio.Event()

    def run_opened(self, run: OpenedRun) -> None:
        self.rung.set()

    def happened(self, logged: Logged) -> None:
        self.rung.set()

    def noted(self, event: Trace) -> None:
        """Do nothing: it is written later, or not at all."""


class Lines:
    """Prints a run's log until nothing more happens, nobody reads, or a signal arrives."""

    def __init__(self, printer: LogPrinter, signals: AsyncIterator[int]) -> None:
        """Begin with nothing printed.

        Args:
            printer: of the run's log.
            signals: those that mean that the reader leaves.
        """
        self._printer = printer
        self._signals = signals

    async def show(self, source: Source) -> Ending:
        """Print the log as it grows; return why it is over.

        Args:
            source: tells when it grows.

        Raises:
            CorruptionError: the log is damaged.
        """
        bell, ending = _Bell(), Ending.LEFT

        async def watch() -> None:
            nonlocal ending
            try:
                await source.watch(bell)
            except PinataError:
                ending = Ending.LOST
            else:
                ending = Ending.ENDED
            bell.rung.set()

        async with open_flat_nursery() as nursery:
            nursery.start_soon(self._heed, nursery.cancel_scope)
            nursery.start_soon(watch)
            is_over = False
            while not is_over:
                await bell.rung.wait()
                bell.rung = trio.Event()
                # Asked before the log is read: then nothing can be added to it any more.
                is_over = ending is not Ending.LEFT
                is_read = await trio.to_thread.run_sync(
                    self._printer.print_new, abandon_on_cancel=True
                )
                if not is_read:
                    ending, is_over = Ending.LEFT, True
            nursery.cancel_scope.cancel()
        return ending

    async def _heed(self, scope: trio.CancelScope) -> None:
        async for _ in self._signals:
            scope.cancel()
