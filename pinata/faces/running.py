"""The commands that carry a run: they show its progress and can be interrupted."""

from argparse import Namespace
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import trio

from engine.core.errors import UsageError
from engine.system.files import read_input
from pinata import app
from pinata.faces import output, text
from pinata.faces.command import Command, here, read_json, width
from pinata.faces.display import choose_display
from pinata.faces.interruption import interruptible
from pinata.tools.registry import Answer

_TEXT_LIMIT_BYTES = 1 << 20
_RUN_CODES = {"succeeded": 0, "cancelled": 3}


async def _run(given: Namespace, environment: Mapping[str, str]) -> int:
    path = here() / given.job
    job = await trio.to_thread.run_sync(read_json, path)
    if given.mode is not None and isinstance(job, dict):
        config = job.get("config")
        settings = config if isinstance(config, dict) else {}
        job = {**job, "config": {**settings, "mode": given.mode}}
    display = choose_display(given, environment)
    context = app.build_context(
        environment,
        here(),
        display,
        base=path.resolve().parent,
        project_trust=True if given.trust_project else None,
    )
    answer = await interruptible(display, partial(app.call_tool, context, "pinata_run", job))
    return _end_run(answer)


async def _resume(given: Namespace, environment: Mapping[str, str]) -> int:
    display = choose_display(given, environment)
    context = app.build_context(environment, here(), display)
    answer = await interruptible(display, partial(app.resume_run, context, given.run))
    return _end_run(answer)


async def _rerun(given: Namespace, environment: Mapping[str, str]) -> int:
    display = choose_display(given, environment)
    context = app.build_context(environment, here(), display)
    answer = await interruptible(display, partial(app.rerun_run, context, given.run))
    return _end_run(answer)


async def _repair(given: Namespace, environment: Mapping[str, str]) -> int:
    feedback = given.feedback
    if feedback is None:
        feedback = await trio.to_thread.run_sync(_read_text, here() / given.feedback_file)
    display = choose_display(given, environment)
    context = app.build_context(environment, here(), display)
    request = {"run": given.run, "task": given.task, "feedback": feedback}
    answer = await interruptible(display, partial(app.call_tool, context, "pinata_repair", request))
    return _end_run(answer)


def _read_text(path: Path) -> str:
    try:
        return read_input(path, _TEXT_LIMIT_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text; save it as UTF-8") from error


def _end_run(answer: Answer) -> int:
    """Print what became of a run; the log is on stdout already."""
    for line in text.run_lines(answer, width()):
        output.note(line)
    if _can_be_applied(answer):
        output.note(f"to apply it: pinata integrate {answer['run']}")
    return _RUN_CODES.get(answer["status"], 1)


def _can_be_applied(answer: Answer) -> bool:
    """Whether it looks as if the run's change could go in, and has not gone in yet."""
    changed = {task["id"] for task in answer["tasks"] if "artifact" in task}
    targets = [task["review"]["target"] for task in answer["tasks"] if "review" in task]
    judged = {target.get("task") for target in targets}
    is_new = "verification" not in answer
    return answer["status"] == "succeeded" and is_new and bool(changed) and changed <= judged


COMMANDS: Mapping[str, Command] = {
    "run": _run,
    "resume": _resume,
    "rerun": _rerun,
    "repair": _repair,
}
