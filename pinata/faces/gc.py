"""The command that gives up what runs left, and how its answer reads."""

from argparse import Namespace
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from pinata import app
from pinata.faces import text
from pinata.faces.command import Command, here, show
from pinata.faces.interruption import interruptible
from pinata.faces.progress import Progress
from pinata.tools.registry import Answer
from pinata.work.observer import Silence


async def _gc(given: Namespace, environment: Mapping[str, str]) -> int:
    context = app.build_context(environment, here(), Silence())
    call = partial(app.collect_garbage, context, confirm=given.confirm, discard=given.discard or ())
    answer = await interruptible(Progress(as_json=False), call)
    show(given, answer, gc_lines)
    return 1 if answer["failed"] else 0


def gc_lines(answer: Answer) -> Iterator[str]:
    """Yield what was removed or would be, then what stays and why, then what failed."""
    is_done = answer["confirmed"]
    going = answer["removed" if is_done else "removable"]
    verb = "removed" if is_done else "would remove"
    for item in going:
        yield f"{verb} {_named(item)}"
    for run in answer["retired"]:
        yield f"{'retired' if is_done else 'would retire'} run {text.short(run)}"
    for item in answer["kept"]:
        yield f"kept {_named(item)}: {text.visible(item['reason'])}"
    for item in answer["failed"]:
        yield f"failed {_named(item)}: {text.visible(item['reason'])}"
    if not (going or answer["retired"]):
        yield "nothing to remove"
    elif not is_done:
        yield "nothing was changed: add --confirm to do it"


def _named(item: Mapping[str, Any]) -> str:
    """Return what an item is and whose."""
    run = text.short(item.get("run", ""))
    if item["what"] == "run":
        return f"run {run}"
    whose = f" of run {run}" if run else ""
    return f"{item['what']} {text.visible(item['name'])}{whose}"


COMMANDS: Mapping[str, Command] = {"gc": _gc}
