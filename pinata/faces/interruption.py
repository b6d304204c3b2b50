"""Ends a call that a person interrupts: the first time gently, the second time at once."""

import signal
from collections.abc import AsyncIterator, Awaitable, Callable

import trio

from engine.core.errors import PinataError
from pinata import app
from pinata.faces import output
from pinata.faces.display import Display
from pinata.tools.registry import Answer


async def interruptible(display: Display, call: Callable[[], Awaitable[Answer]]) -> Answer:
    """Carry out a call; the first interruption asks its run to end, the second ends the process."""
    answers: list[Answer] = []
    failures: list[PinataError] = []
    app.adopt_orphans()
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_watch_signals, signals, display, nursery.cancel_scope)
            async with trio.open_nursery() as shown:
                shown.start_soon(display.show)
                try:
                    answers.append(await call())
                except PinataError as error:
                    failures.append(error)
                display.end()
            nursery.cancel_scope.cancel()
    if failures:
        raise failures[0]
    if not answers:
        raise KeyboardInterrupt
    return answers[0]


async def _watch_signals(
    signals: AsyncIterator[int], display: Display, scope: trio.CancelScope
) -> None:
    is_ending = False
    async for number in signals:
        name = signal.Signals(number).name
        if is_ending or not display.request_cancel(f"interrupted ({name})"):
            scope.cancel()
            return
        is_ending = True
        output.note("pinata: cancelling; once more to stop at once")
