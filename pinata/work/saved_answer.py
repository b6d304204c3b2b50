"""Answers about the whole saved result of a task: nothing is shortened, nothing is left out."""

from typing import Any

from engine.core.fingerprint import change_entry
from engine.core.ids import AttemptId
from engine.core.spec import Kind, TaskSpec
from engine.core.view import ResourcesView
from pinata.work.receipt import proof_answer
from pinata.work.result import Artifact, SavedResult, SteerRecord, changes_of
from pinata.work.shown import ShownRun
from pinata.work.summary import TaskFacts, task_summary


def saved_answer(shown: ShownRun, task: TaskSpec) -> dict[str, Any]:
    """Return all that is kept of a task's newest attempt; blocks.

    Without one that is only its status, and a message that says why there is none.
    """
    fact, view = shown.facts[task.id], shown.view.tasks.get(task.id)
    run = {"run": shown.folder.run}
    result = shown.results.get(task.id)
    if result is None or view is None:
        return {**run, "id": task.id, "status": fact.status.value, "message": _nothing(fact)}
    summary = task_summary(task, fact, shown.results)
    return {
        **run,
        **_unshortened(summary, result),
        **_ended(result),
        **_setup(shown, task, result),
        **_resources(view.resources),
        "digest": view.digest,
    }


def _nothing(fact: TaskFacts) -> str:
    if not fact.status.is_final:
        return "there is no saved result before the task settles"
    return "there is no saved result of this task" + (f": {fact.reason}" if fact.reason else "")


def _unshortened(summary: dict[str, Any], result: SavedResult) -> dict[str, Any]:
    out = {key: value for key, value in summary.items() if key != "truncated"}
    if "brief" in out and result.submission is not None:
        out["brief"] = result.submission["brief"]
    if result.artifact is not None:
        out["artifact"] = {**out["artifact"], **_change(result.artifact)}
    if result.checkout_changed is not None:
        out["checkoutChanged"] = result.checkout_changed
    return out


def _change(artifact: Artifact) -> dict[str, Any]:
    out: dict[str, Any] = {"changes": [change_entry(change) for change in changes_of(artifact)]}
    if (patch := artifact.patch) is not None:
        out["patch"] = {"path": patch.path, "bytes": patch.bytes, "sha256": patch.sha256}
    return out


def _ended(result: SavedResult) -> dict[str, Any]:
    out: dict[str, Any] = {
        "attempt": result.attempt,
        "result": result.submission,
        "checks": [proof_answer(proof) for proof in result.checks],
        "notRun": list(result.not_run),
        "model": result.model,
        "turns": result.usage.turns,
        "toolCalls": result.usage.tool_calls,
        "startedAt": result.started_at_ms,
        "endedAt": result.ended_at_ms,
    }
    if result.stage is not None:
        out["failureStage"] = result.stage.value
    if result.steers:
        out["steers"] = [_steer(steer) for steer in result.steers]
    if result.transcript is not None:
        out["transcript"] = result.transcript
    return out


def _steer(steer: SteerRecord) -> dict[str, str]:
    way = "followUp" if steer.follow_up else "steer"
    return {"as": way, "sender": steer.sender.value, "message": steer.text}


def _resources(used: ResourcesView | None) -> dict[str, Any]:
    """Return what the programs of the attempt used, if its run was observed."""
    if used is None:
        return {}
    out = {
        "cpuS": used.cpu_s,
        "peakMemoryBytes": used.peak_memory_bytes,
        "readBytes": used.read_bytes,
        "writtenBytes": used.written_bytes,
    }
    return {"resources": {key: value for key, value in out.items() if value is not None}}


def _setup(shown: ShownRun, task: TaskSpec, result: SavedResult) -> dict[str, Any]:
    """Return how a writer's worktree was made ready, with its output if this attempt did it."""
    if task.kind is not Kind.WRITER or not result.attempt:
        return {}
    decided = shown.record.setup
    out = {"source": decided.source.value, "command": decided.command, "reason": decided.reason}
    logs = shown.folder.setup_dir(AttemptId(task.id, result.attempt))
    if logs.is_dir():
        out["logs"] = str(logs)
    return {"setup": {key: value for key, value in out.items() if value is not None}}
