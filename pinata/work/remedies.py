"""What can still be done about a run that did not succeed, by what is answered about it."""

from collections.abc import Mapping, Sequence
from typing import Any

from engine.core.outcome import LOST_REASON


def to_mend(answer: Mapping[str, Any]) -> Sequence[str]:
    """Return the builders whose change a reviewer, a check or the engine found at fault, sorted.

    None while the run goes on or after a cancellation: nothing is repaired then.

    Args:
        answer: what `pinata_status` says of the run.
    """
    if answer["status"] != "failed":
        return []
    failed = {task["id"] for task in answer["tasks"] if _is_at_fault(task)}
    reviews = [task["review"] for task in answer["tasks"] if task["status"] == "rejected"]
    return sorted(failed | {name for review in reviews if (name := review["target"].get("task"))})


def has_lost(answer: Mapping[str, Any]) -> bool:
    """Return whether tasks died with the run's process, and the run was not cancelled later.

    Args:
        answer: what `pinata_status` says of the run.
    """
    return answer["status"] == "failed" and any(
        task["status"] == "cancelled" and task.get("reason") == LOST_REASON
        for task in answer["tasks"]
    )


def _is_at_fault(task: Mapping[str, Any]) -> bool:
    return task["status"] == "failed" and "artifact" in task
