"""Shows a run of any process, and lets a person steer and cancel it."""

import signal
import sys
from argparse import Namespace
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Protocol

import trio

from engine.core.errors import UsageError
from engine.core.ids import TaskId
from engine.store import RunFolder
from engine.system.clock import SystemClock
from pinata import app
from pinata.faces import output
from pinata.faces.command import Command, here
from pinata.faces.display import is_watched
from pinata.faces.logs import LogPrinter
from pinata.faces.text import visible
from pinata.faces.view_lines import Lines
from pinata.faces.view_state import Ending
from pinata.work.link_entry import NoLinkError
from pinata.work.lookup import find_viewed
from pinata.work.observer import Silence
from pinata.work.reach import UnreachableError, reach
from pinata.work.unknown_task import UnknownTaskError
from pinata.work.viewed import Source, StoredSource, read_source

_AGAIN_S = 0.2


class _Show(Protocol):
    """One of the ways to show a run."""

    async def show(self, source: Source) -> Ending:
        """Show what `source` tells until it is over; return why."""
        ...


async def _view(given: Namespace, environment: Mapping[str, str]) -> int:
    context = app.build_context(environment, here(), Silence())
    found = await find_viewed(context, given.run)
    if found is None:
        raise UsageError("there are no runs yet")
    folder, lock = found
    stored = await trio.to_thread.run_sync(read_source, folder)
    if given.task is not None and given.task not in stored.opened.after:
        raise UnknownTaskError(given.task, list(stored.opened.after))
    if is_watched(given, environment) and sys.stdin is not None and sys.stdin.isatty():
        return await _show_screen(given, environment, stored, lock)
    return await _show_lines(given, folder, lock)


async def _show_until_over(show: _Show, folder: RunFolder, lock: Path) -> tuple[Ending, str]:
    """Show a run until it is over; return why, and what is to be said of it, if anything.

    A connection that is lost is made anew while somebody owns the run: who was stopped for some
    time, or lies on a machine that slept, did not listen and was let go.
    """
    was_lost = False
    while True:
        async with AsyncExitStack() as stack:
            source, stored = await _reach(stack, folder, lock)
            ending = await show.show(source)
        if source is stored and not stored.has_settled:
            return Ending.LOST if was_lost else ending, stored.reason
        if ending is not Ending.LOST:
            return ending, ""
        was_lost = True
        await trio.sleep(_AGAIN_S)


async def _reach(
    stack: AsyncExitStack, folder: RunFolder, lock: Path
) -> tuple[Source, StoredSource]:
    """Return where to hear of a run, and the run as it lies on disk, which may be the same.

    Args:
        stack: closes the link, if there is one.
        folder: the run's.
        lock: held by whoever owns the run.

    Raises:
        CorruptionError: the run is damaged.
        ConflictError: its owner does not answer, or serves no more viewers.
    """
    source: Source | None = None
    trouble = ""
    try:
        source = await stack.enter_async_context(reach(folder, lock, role="viewer"))
    except NoLinkError:
        trouble = f"nobody works on run {folder.run}: pinata rerun {folder.run}, or resume"
    except UnreachableError as error:
        trouble = str(error)
    # Read last, so that a run which settled meanwhile is seen to have.
    stored = await trio.to_thread.run_sync(read_source, folder)
    if source is None and not stored.has_settled:
        stored = stored.because(trouble)
    return source or stored, stored


async def _show_lines(given: Namespace, folder: RunFolder, lock: Path) -> int:
    printer = await trio.to_thread.run_sync(LogPrinter, folder, given, output.write)
    if not given.json:
        await trio.to_thread.run_sync(output.write, f"run {folder.run}\n")
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        ending, says = await _show_until_over(Lines(printer, signals), folder, lock)
    return _end(folder, ending, says)


async def _show_screen(
    given: Namespace, environment: Mapping[str, str], stored: StoredSource, lock: Path
) -> int:
    # These load rich, which programs that read lines need not wait for.
    from pinata.faces.view_paint import lines_of  # noqa: PLC0415 - see above
    from pinata.faces.view_screen import last_picture  # noqa: PLC0415 - see above
    from pinata.faces.view_terminal import open_terminal  # noqa: PLC0415 - see above
    from pinata.faces.view_visit import Visit, Wish  # noqa: PLC0415 - see above

    task = None if given.task is None else TaskId(given.task)
    wish = Wish(stored, task, given.keep, environment, SystemClock())
    assert sys.stdin is not None
    async with open_terminal(sys.stdin.fileno()) as terminal:
        visit = Visit(wish, terminal)
        ending, says = await _show_until_over(visit, stored.folder, lock)
        scene, size = visit.scene, terminal.size
    if scene is not None and ending is not Ending.LEFT:
        lines = lines_of(last_picture(scene, size), size)
        await trio.to_thread.run_sync(output.write, "".join(f"{line}\n" for line in lines))
    return _end(stored.folder, ending, says)


def _end(folder: RunFolder, ending: Ending, says: str) -> int:
    """Say what a person should know who has seen what was shown, and return the exit code."""
    if says:
        output.note(f"pinata: {visible(says)}")
    elif ending is Ending.LEFT:
        output.note(f"run {folder.run} goes on: pinata view {folder.run}")
    return 1 if ending is Ending.LOST else 0


COMMANDS: Mapping[str, Command] = {"view": _view}
