"""The command line: arguments in, lines and an exit code out."""

import json
import shutil
import signal
from argparse import Namespace
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import trio

from engine.core.errors import (
    ConflictError,
    CorruptionError,
    ExternalError,
    PinataError,
    UsageError,
)
from engine.records.json_text import decode_json
from engine.system.files import read_input
from pinata import app
from pinata.faces import output, text
from pinata.faces.arguments import parse
from pinata.faces.logs import show_log
from pinata.faces.progress import Progress
from pinata.tools.registry import Answer
from pinata.work.context import Silence

_JOB_LIMIT_BYTES = 16 << 20
_EXIT_CODES: Sequence[tuple[type[PinataError], int]] = (
    (UsageError, 2),
    (ConflictError, 4),
    (CorruptionError, 5),
    (ExternalError, 1),
)
_RUN_CODES = {"succeeded": 0, "cancelled": 3}
_INTEGRATE_CODES = {"verified": 0, "applied_unverified": 0}
CANCELLED = 3


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Carry out a command and return its exit code."""
    try:
        return trio.run(partial(_carry_out, parse(arguments), environment))
    except PinataError as error:
        return _refuse(error, as_json="--json" in arguments)
    except KeyboardInterrupt:
        return CANCELLED


def exit_code(error: PinataError) -> int:
    """Return the exit code that stands for `error`."""
    return next(code for kind, code in _EXIT_CODES if isinstance(error, kind))


def _refuse(error: PinataError, *, as_json: bool) -> int:
    """Say why nothing came of a command, on stderr: stdout carries nothing but what was asked."""
    if as_json:
        output.note(json.dumps({"error": str(error)}))
    else:
        output.note(f"pinata: {text.visible(str(error))}")
    return exit_code(error)


async def _carry_out(given: Namespace, environment: Mapping[str, str]) -> int:
    command: Callable[[Namespace, Mapping[str, str]], Awaitable[int]] = _COMMANDS[given.command]
    return await command(given, environment)


async def _run(given: Namespace, environment: Mapping[str, str]) -> int:
    path = _here() / given.job
    job = await trio.to_thread.run_sync(_read_job, path)
    if given.mode is not None and isinstance(job, dict):
        config = job.get("config")
        settings = config if isinstance(config, dict) else {}
        job = {**job, "config": {**settings, "mode": given.mode}}
    progress = Progress(as_json=given.json)
    context = app.build_context(environment, _here(), progress, base=path.resolve().parent)
    answer = await _interruptible(progress, partial(app.call_tool, context, "pinata_run", job))
    return _end_run(answer)


async def _resume(given: Namespace, environment: Mapping[str, str]) -> int:
    progress = Progress(as_json=given.json)
    context = app.build_context(environment, _here(), progress)
    answer = await _interruptible(progress, partial(app.resume_run, context, given.run))
    return _end_run(answer)


def _end_run(answer: Answer) -> int:
    """Print what became of a run; the log is on stdout already."""
    for line in text.run_lines(answer, _width()):
        output.note(line)
    if _can_be_applied(answer):
        output.note(f"to apply it: pinata integrate {answer['run']}")
    return _RUN_CODES.get(answer["status"], 1)


def _can_be_applied(answer: Answer) -> bool:
    """Whether it looks as if the run's change could go in, and has not gone in yet."""
    changed = {task["id"] for task in answer["tasks"] if "artifact" in task}
    judged = {task["review"]["target"]["task"] for task in answer["tasks"] if "review" in task}
    is_new = "verification" not in answer
    return answer["status"] == "succeeded" and is_new and bool(changed) and changed <= judged


def _here() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise UsageError("the folder you stand in is gone: go to another one") from error


def _read_job(path: Path) -> object:
    return decode_json(read_input(path, _JOB_LIMIT_BYTES), str(path))


async def _interruptible(progress: Progress, call: Callable[[], Awaitable[Answer]]) -> Answer:
    """Carry out a call; the first interruption asks its run to end, the second ends the process."""
    answers: list[Answer] = []
    failures: list[PinataError] = []
    app.adopt_orphans()
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_watch_signals, signals, progress, nursery.cancel_scope)
            async with trio.open_nursery() as shown:
                shown.start_soon(progress.show)
                try:
                    answers.append(await call())
                except PinataError as error:
                    failures.append(error)
                progress.end()
            nursery.cancel_scope.cancel()
    if failures:
        raise failures[0]
    if not answers:
        raise KeyboardInterrupt
    return answers[0]


async def _watch_signals(
    signals: AsyncIterator[int], progress: Progress, scope: trio.CancelScope
) -> None:
    is_ending = False
    async for number in signals:
        name = signal.Signals(number).name
        if is_ending or not progress.request_cancel(f"interrupted ({name})"):
            scope.cancel()
            return
        is_ending = True
        output.note("pinata: cancelling; once more to stop at once")


async def _status(given: Namespace, environment: Mapping[str, str]) -> int:
    arguments = {
        name: value
        for name in ("run", "task", "offset", "limit", "detail")
        if (value := getattr(given, name)) is not None
    }
    context = app.build_context(environment, _here(), Silence())
    answer = await app.call_tool(context, "pinata_status", arguments)
    if given.task is None:
        _print(given, answer, partial(text.run_lines, width=_width()))
    elif given.detail in (None, "summary"):
        _print(given, answer, partial(text.task_lines, width=_width()))
    elif given.detail == "transcript":
        _print(given, answer, text.transcript_lines)
    else:
        _print_json(answer)
    return 0


async def _integrate(given: Namespace, environment: Mapping[str, str]) -> int:
    context = app.build_context(environment, _here(), Silence())
    call = partial(app.call_tool, context, "pinata_integrate", {"run": given.run})
    answer = await _interruptible(Progress(as_json=False), call)
    _print(given, answer, text.integration_lines)
    return _INTEGRATE_CODES.get(answer["status"], 1)


async def _rollback(given: Namespace, environment: Mapping[str, str]) -> int:
    context = app.build_context(environment, _here(), Silence())
    arguments: dict[str, Any] = {"run": given.run} | ({"confirm": True} if given.confirm else {})
    call = partial(app.call_tool, context, "pinata_rollback", arguments)
    answer = await _interruptible(Progress(as_json=False), call)
    _print(given, answer, text.rollback_lines)
    return 0


async def _logs(given: Namespace, environment: Mapping[str, str]) -> int:
    context = app.build_context(environment, _here(), Silence())
    await show_log(context, given, output.write)
    return 0


async def _doctor(given: Namespace, environment: Mapping[str, str]) -> int:
    from pinata.faces.doctor import examine  # noqa: PLC0415 - loads libgit2 for this command alone

    context = app.build_context(environment, _here(), Silence())
    answer = await examine(context)
    _print(given, answer, text.doctor_lines)
    return 0 if answer["ok"] else 1


async def _tools(given: Namespace, environment: Mapping[str, str]) -> int:  # noqa: ARG001 - one shape for all commands
    described = await trio.to_thread.run_sync(app.describe_tools)
    if given.json:
        _print_json(described)
    else:
        _print_lines(text.tool_lines(described, _width()))
    return 0


def _print(given: Namespace, answer: Answer, lines: Callable[[Answer], Iterable[str]]) -> None:
    if given.json:
        _print_json(answer)
    else:
        _print_lines(lines(answer))


def _print_json(answer: object) -> None:
    output.write(json.dumps(answer, indent=1, ensure_ascii=False) + "\n")


def _print_lines(lines: Iterable[str]) -> None:
    output.write("".join(f"{line}\n" for line in lines))


def _width() -> int:
    """Return where prose is wrapped: at the terminal's edge, or where most terminals have it."""
    return max(text.NARROWEST, shutil.get_terminal_size((text.WIDTH, 0)).columns)


_COMMANDS: Mapping[str, Callable[[Namespace, Mapping[str, str]], Awaitable[int]]] = {
    "run": _run,
    "resume": _resume,
    "status": _status,
    "integrate": _integrate,
    "rollback": _rollback,
    "logs": _logs,
    "doctor": _doctor,
    "tools": _tools,
}
