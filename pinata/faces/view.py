"""Shows a run of any process, and lets a person steer and cancel it."""

import signal
import sys
from argparse import Namespace
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

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
from pinata.faces.view_lines import show_lines
from pinata.faces.view_state import Ending
from pinata.work.link_entry import NoLinkError
from pinata.work.observer import Silence
from pinata.work.reach import UnreachableError, reach
from pinata.work.unknown_task import UnknownTaskError
from pinata.work.viewed import Source, StoredSource, read_source


async def _view(given: Namespace, environment: Mapping[str, str]) -> int:
    context = app.build_context(environment, here(), Silence())
    found = await app.find_viewed(context, given.run)
    if found is None:
        raise UsageError("there are no runs yet")
    async with AsyncExitStack() as stack:
        source, stored = await _reach(stack, *found)
        if given.task is not None and given.task not in stored.opened.after:
            raise UnknownTaskError(given.task, list(stored.opened.after))
        is_seen = is_watched(given, environment) and sys.stdin is not None and sys.stdin.isatty()
        show = _show_screen if is_seen else _show_lines
        return await show(given, environment, source, stored)


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
        trouble = f"nobody works on run {folder.run}: pinata resume {folder.run}"
    except UnreachableError as error:
        trouble = str(error)
    # Read last, so that a run which settled meanwhile is seen to have.
    stored = await trio.to_thread.run_sync(read_source, folder)
    if source is None and not stored.has_settled:
        stored = stored.because(trouble)
    return source or stored, stored


async def _show_lines(
    given: Namespace,
    environment: Mapping[str, str],  # noqa: ARG001 - one shape for both ways to show a run
    source: Source,
    stored: StoredSource,
) -> int:
    printer = await trio.to_thread.run_sync(LogPrinter, stored.folder, given, output.write)
    if not given.json:
        await trio.to_thread.run_sync(output.write, f"run {stored.folder.run}\n")
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        ending, trouble = await show_lines(source, printer, signals)
    return _end(stored, source, ending, trouble)


async def _show_screen(
    given: Namespace, environment: Mapping[str, str], source: Source, stored: StoredSource
) -> int:
    # These load rich, which programs that read lines need not wait for.
    from pinata.faces.view_paint import lines_of  # noqa: PLC0415 - see above
    from pinata.faces.view_screen import last_picture  # noqa: PLC0415 - see above
    from pinata.faces.view_session import Session, Visit  # noqa: PLC0415 - see above
    from pinata.faces.view_terminal import open_terminal  # noqa: PLC0415 - see above

    task = None if given.task is None else TaskId(given.task)
    visit = Visit(source, stored, task, given.keep, environment, SystemClock())
    assert sys.stdin is not None
    async with open_terminal(sys.stdin.fileno()) as terminal:
        session = Session(visit, terminal)
        ending = await session.show()
        scene, size = session.scene, terminal.size
    if scene is not None and ending is not Ending.LEFT:
        lines = lines_of(last_picture(scene, size), size)
        await trio.to_thread.run_sync(output.write, "".join(f"{line}\n" for line in lines))
    return _end(stored, source, ending, session.trouble)


def _end(stored: StoredSource, source: Source, ending: Ending, trouble: str) -> int:
    """Say what a person should know who has seen what was shown, and return the exit code."""
    run = stored.folder.run
    if ending is Ending.LOST:
        output.note(f"pinata: {visible(trouble)}")
        return 1
    if source is stored and not stored.has_settled:
        output.note(f"pinata: {visible(stored.reason)}")
    elif ending is Ending.LEFT:
        output.note(f"run {run} goes on: pinata view {run}")
    return 0


COMMANDS: Mapping[str, Command] = {"view": _view}
