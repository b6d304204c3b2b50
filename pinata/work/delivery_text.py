"""What a session is told of a run's end: a text for the model that coordinates it.

The texts of several runs may be joined into one message, so each begins with its run and its key.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from engine.core.ids import RunId
from pinata.work.owed import Settlement
from pinata.work.remedies import has_lost, to_mend
from pinata.work.summary import cut_text

TEXT_BYTES = 32 * 1024
_REASON_BYTES = 2048
_LINE_BYTES = 320
_MOST_REMEDIES = 5


def end_text(key: str, answer: Mapping[str, Any], missing: str | None) -> str:
    """Return what is told of a run that has settled, in at most 32 KiB.

    Args:
        key: of the delivery.
        answer: what `pinata_status` says of the run.
        missing: why the run's changes cannot be integrated; None where they can, or there are none.
    """
    run, status = answer["run"], answer["status"]
    counts = ", ".join(f"{number} {name}" for name, number in answer.get("counts", {}).items())
    lines = [f"Run {run} has ended: {status} ({counts}). [delivery {key}]"]
    if reason := answer.get("reason"):
        lines.append(cut_text(f"Reason: {_one_line(reason)}", _REASON_BYTES))
    lines += (_task_line(task) for task in answer["tasks"])
    if "nextOffset" in answer:
        more = _call("pinata_status", run=run, offset=answer["nextOffset"])
        lines.append(f"- and {answer['taskCount'] - len(answer['tasks'])} more tasks: {more}")
    lines += (f"Next: {each}." for each in _next_steps(answer, missing))
    return cut_text("\n".join(lines), TEXT_BYTES)


def overtaken_text(key: str, run: RunId, settlement: Settlement, newest: int) -> str:
    """Return the sentence about a settlement after which the run went on.

    Args:
        key: of the delivery.
        run: which settled.
        settlement: the one that is told.
        newest: the number of the run's newest settlement, which may be this one.
    """
    because = "" if settlement.reason is None else f", {_one_line(settlement.reason)}"
    ended = cut_text(f"ended as {settlement.status.value}{because}", _REASON_BYTES)
    since = "has ended again" if newest > settlement.number else "goes on"
    return f"Run {run} {ended}, and {since} since then. [delivery {key}]"


def damage_text(key: str, run: RunId, says: str) -> str:
    """Return what is told of a run whose records cannot be read."""
    says = cut_text(_one_line(says), _REASON_BYTES)
    return (
        f"What became of run {run} cannot be told, since its records are damaged: {says}. "
        f"[delivery {key}]"
    )


def _task_line(task: Mapping[str, Any]) -> str:
    said = task.get("reason") or task.get("summary") or task.get("brief") or "nothing was said"
    return cut_text(
        f"- {task['id']} ({task['agent']}): {task['status']}: {_one_line(said)}", _LINE_BYTES
    )


def _one_line(text: object) -> str:
    return " ".join(str(text).split())


def _next_steps(answer: Mapping[str, Any], missing: str | None) -> Iterator[str]:
    """Yield what can be done about a run that has settled, the most useful first."""
    run, tasks = answer["run"], answer["tasks"]
    if answer["status"] == "succeeded":
        if not any("artifact" in task for task in tasks):
            yield f"{_call('pinata_status', run=run)} tells all that was found"
        elif missing is None:
            yield (
                f"{_call('pinata_changes', run=run)} shows the approved change, "
                f"{_call('pinata_integrate', run=run)} applies it"
            )
        else:
            yield f"the change cannot be integrated: {missing}"
        return
    faulty = to_mend(answer)
    for task in faulty[:_MOST_REMEDIES]:
        arguments = {"run": run, "task": task, "feedback": "..."}
        yield f"{_call('pinata_repair', **arguments)} has {task} mended"
    if has_lost(answer):
        yield f"`pinata rerun {run}` starts again what was lost"
    elif not faulty:
        yield f"{_call('pinata_status', run=run)} tells more; start a new run for what is left"


def _call(tool: str, **arguments: object) -> str:
    return f"{tool} {json.dumps(arguments, ensure_ascii=False)}"
