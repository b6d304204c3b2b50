"""What a person types after `/pinata` in a session: answered as text, and no model hears of it."""

import io
import shlex
from argparse import Namespace
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import replace
from functools import partial
from typing import Final

import trio

from engine.core.errors import UsageError
from engine.core.quote import quote_value
from pinata import app
from pinata.faces import text
from pinata.faces.arguments import parse
from pinata.faces.board import board
from pinata.faces.command import as_lines, as_text
from pinata.faces.gc import gc_lines
from pinata.faces.reading import status_text
from pinata.faces.session_board import AgentRow, SessionBoard, table
from pinata.work.context import Context
from pinata.work.lookup import find_viewed, outline_runs
from pinata.work.observer import OpenedRun
from pinata.work.runtime import Runtime
from pinata.work.viewed import StoredSource, read_source

USAGE: Final = """\
/pinata status [RUN [TASK]]   how a run stands, the latest without RUN
/pinata runs                  the runs of this repository, the latest first
/pinata watch [RUN]           a run as it is at this moment, a row for each task
/pinata open [RUN [TASK]]     how to follow a run live in another terminal
/pinata rerun RUN             start again what was lost of a run
/pinata gc [--confirm] [--discard RUN]   what runs left and nobody needs
"""
# What stands for an action on the command line, where that is another command's.
_PARSED_AS = {"watch": "view", "open": "view"}
_MOST_ROWS = 64

Carry = Callable[[Context, Namespace], Awaitable[str]]


class SessionCommands:
    """Carries out what is typed in the session of one host."""

    def __init__(self, runtime: Runtime, shown: SessionBoard) -> None:
        """Begin.

        Args:
            runtime: the runs of this process.
            shown: watches them.
        """
        self._runtime = runtime
        self._shown = shown
        self._actions: Mapping[str, Carry] = {
            "status": partial(status_text, columns=text.WIDTH),
            "runs": self._runs,
            "watch": self._watch,
            "open": self._open,
            "rerun": self._rerun,
            "gc": self._gc,
        }

    async def carry_out(self, context: Context, typed: str) -> str:
        """Return what is to be shown for what was typed.

        Args:
            context: where the session stands.
            typed: an action and its arguments, as in a shell.

        Raises:
            UsageError: it is none.
            PinataError: it was refused, or failed.
        """
        words = _words(typed)
        if not words or words[0] in ("help", "--help", "-h"):
            return USAGE
        action, *arguments = words
        if action not in self._actions:
            known = ", ".join(self._actions)
            raise UsageError(f"unknown action {quote_value(action)}: try one of {known}")
        given = _parse([_PARSED_AS.get(action, action), *arguments])
        if isinstance(given, str):
            return given
        return await self._actions[action](context, given)

    async def _runs(self, context: Context, given: Namespace) -> str:
        return as_text(given, await outline_runs(context), text.outline_lines)

    async def _watch(self, context: Context, given: Namespace) -> str:
        source = await _find(context, given.run)
        opened, view = source.opened, self._shown.find(source.opened.id) or source.opened.view
        lines = _board_lines(replace(opened, view=view), context.clock.now_ms())
        return as_lines(lines)

    async def _open(self, context: Context, given: Namespace) -> str:
        run = (await _find(context, given.run)).opened
        if given.task is not None and given.task not in run.after:
            raise UsageError(f"run {text.short(run.id)} has no task {quote_value(given.task)}")
        words = ["pinata", "view", text.short(run.id), *filter(None, [given.task])]
        return f"in another terminal: cd {shlex.quote(str(context.cwd))} && {shlex.join(words)}\n"

    async def _rerun(self, context: Context, given: Namespace) -> str:
        """Begin, and leave the run to the others of this process: nobody can type until it ends."""
        begun = self._runtime.start_in_background(
            lambda observer: app.rerun_run(
                replace(context, observer=observer, runtime=None), given.run
            )
        )
        run = (await begun.wait_opened()).id
        name = text.short(run)
        return f"run {name} goes on; /pinata status {name} tells how it stands\n"

    async def _gc(self, context: Context, given: Namespace) -> str:
        answer = await app.collect_garbage(
            context, confirm=given.confirm, discard=given.discard or ()
        )
        return as_text(given, answer, gc_lines)


def _words(typed: str) -> list[str]:
    try:
        return shlex.split(typed)
    except ValueError as error:
        raise UsageError(f"cannot read that: {str(error).lower()}") from error


def _parse(words: list[str]) -> Namespace | str:
    """Return the arguments, or the help that they ask for."""
    said = io.StringIO()
    try:
        with redirect_stdout(said):
            return parse(words)
    except SystemExit:
        return said.getvalue()


async def _find(context: Context, prefix: str | None) -> StoredSource:
    """Return a run as it is stored, the latest that has not ended without a prefix."""
    found = await find_viewed(context, prefix)
    if found is None:
        raise UsageError("there are no runs yet")
    return await trio.to_thread.run_sync(read_source, found[0])


def _board_lines(run: OpenedRun, now_ms: int) -> Iterator[str]:
    shown = board(text.short(run.id), run.view, run.after, now_ms, _MOST_ROWS)
    yield shown.title
    yield from table(
        [
            AgentRow(each, each.task, agent, run.backends.get(task, ""))
            for each in shown.rows
            for task, agent in run.agents.items()
            if task == each.task
        ]
    )
    if shown.hidden is not None:
        yield shown.hidden
    yield shown.total
