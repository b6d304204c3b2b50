"""Answers about a run: whole-run counts and pages of task summaries, small enough to be read.

Everything is a function of the run's record, its saved results and the view of its events, so the
answer is the same whoever asks and whether the run is live or long settled.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from checks.outcome import count
from checks.proof import CheckProof
from engine.core.ids import Fingerprint, TaskId
from engine.core.outcome import Status
from engine.core.spec import Kind, ReviewOf, RunSpec, TaskSpec
from engine.core.subject import Subject
from engine.core.view import UsageView
from pinata.work.result import Artifact, Review, SavedResult, Usage
from pinata.work.review import standing_of

PAGE_TASKS = 64
PAGE_BYTES = 32 * 1024
BRIEF_BYTES = 8 * 1024
# A shortened task keeps room for its neighbours' braces and commas.
_SHORT_BYTES = PAGE_BYTES - 512
# What is left of a part whose neighbours alone are over; all parts together stay within a page.
_KEPT_BYTES = 256
_SHORTENED = (
    "brief",
    "findings",
    "sources",
    "blockers",
    "changedFiles",
    "notices",
    "summary",
    "reason",
)
_UNUSED = UsageView()


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """What is known of one task apart from its request and its saved result.

    Attributes:
        usage: of the newest attempt, as far as it has come.
    """

    status: Status
    reason: str | None
    usage: UsageView = _UNUSED


def status_counts(facts: Mapping[TaskId, TaskFacts]) -> dict[str, int]:
    """Return how many tasks have each status that occurs, in the order statuses are declared."""
    found = Counter(fact.status for fact in facts.values())
    return {status.value: found[status] for status in Status if found[status]}


def page(
    spec: RunSpec,
    facts: Mapping[TaskId, TaskFacts],
    results: Mapping[TaskId, SavedResult],
    *,
    offset: int = 0,
    limit: int = PAGE_TASKS,
) -> tuple[list[dict[str, Any]], int | None]:
    """Return the task summaries from `offset` on, and the offset of the next page if there is one.

    A page ends at `limit` tasks or before the task that would take it over 32 KiB of UTF-8; it
    holds at least one task, shortened if that one alone is over. Behind the last task it is empty.

    Args:
        spec: the run's request.
        facts: of every task.
        results: of the newest attempts; only those that the page needs are looked up.
        offset: 0 or more.
        limit: 1 to `PAGE_TASKS`.
    """
    out: list[dict[str, Any]] = []
    used, at = 0, offset
    for task in spec.tasks[offset : offset + limit]:
        summary = task_summary(task, facts[task.id], results)
        size = _size(summary)
        if size > _SHORT_BYTES:
            summary = _shortened(summary)
            size = _size(summary)
        if out and used + size > PAGE_BYTES:
            break
        out.append(summary)
        used += size
        at += 1
    return out, at if at < len(spec.tasks) and offset < len(spec.tasks) else None


def task_summary(
    task: TaskSpec, fact: TaskFacts, results: Mapping[TaskId, SavedResult]
) -> dict[str, Any]:
    """Return the summary of one task; keys that would say nothing are left out."""
    out: dict[str, Any] = {"id": task.id, "agent": task.agent, "status": fact.status.value}
    result = results.get(task.id)
    submission = result.submission if result is not None and result.submission is not None else {}
    out["summary"] = submission.get("summary") or ""
    if fact.status.is_final and fact.status is not Status.SUCCEEDED:
        out["reason"] = fact.reason or "no reason was recorded"
    if result is None:
        out["usage"] = _usage_so_far(fact.usage)
        return out
    out |= _said(submission, out)
    out |= _found(task, result, results)
    if result.notices:
        out["notices"] = list(result.notices)
    return out


def _said(submission: Mapping[str, Any], out: dict[str, Any]) -> dict[str, Any]:
    said: dict[str, Any] = {}
    if submission.get("brief"):
        brief = str(submission["brief"])
        said["brief"] = cut_text(brief, BRIEF_BYTES)
        if said["brief"] != brief:
            out["truncated"] = True
    for key in ("findings", "blockers", "sources"):
        if submission.get(key):
            said[key] = submission[key]
    return said


def _found(
    task: TaskSpec, result: SavedResult, results: Mapping[TaskId, SavedResult]
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if result.artifact is not None:
        found["changedFiles"] = [change.path for change in result.artifact.changes]
        found["artifact"] = artifact_answer(result.attempt, result.artifact)
    if result.checkout_changed:
        found["checkoutChanged"] = True
    if result.checks or result.not_run:
        counts = count(result.checks, not_run=len(result.not_run))
        found["engineChecks"] = {
            "passed": counts.passed,
            "failed": counts.failed,
            "notRun": counts.not_run,
        }
    if failed := [_failed_check(proof) for proof in result.checks if not proof.passed]:
        found["failedChecks"] = failed
    if result.review is not None:
        if result.review.verdict is not None:
            found["verdict"] = result.review.verdict.value
        found["review"] = _review(task, result.review, results)
    found["usage"] = _usage(result.usage)
    if result.transcript is not None and result.status is not Status.SUCCEEDED:
        found["transcript"] = result.transcript
    return found


def _usage(usage: Usage) -> dict[str, Any]:
    out: dict[str, Any] = {
        "turns": usage.turns,
        "toolCalls": usage.tool_calls,
        "tokens": usage.input_tokens + usage.output_tokens,
        "costUsd": usage.cost_usd,
    }
    if usage.refused_calls:
        out["refusedCalls"] = usage.refused_calls
    return out


def _usage_so_far(usage: UsageView) -> dict[str, Any]:
    return {
        "turns": usage.turns,
        "toolCalls": usage.tool_calls,
        "tokens": usage.input_tokens + usage.output_tokens,
        "costUsd": None if usage.cost_is_partial else usage.cost_usd,
    }


def _failed_check(proof: CheckProof) -> dict[str, str]:
    """Return which check failed and where the logs lie that say anything."""
    logs = {"stdout": proof.stdout, "stderr": proof.stderr}
    said = {name: log.path for name, log in logs.items() if log is not None and log.bytes}
    return {"id": proof.id, **said}


def _review(
    task: TaskSpec, review: Review, results: Mapping[TaskId, SavedResult]
) -> dict[str, Any]:
    if isinstance(task.target, ReviewOf):
        is_current = standing_of(task.id, task.target.task, results).current
    else:
        # A subject stands for the whole run, so whatever verdict there is holds for it.
        is_current = review.verdict is not None
    return {
        "target": {"task": review.task} if review.subject is None else _subject(review.subject),
        "fingerprint": review.fingerprint,
        "scope": review.scope,
        "verdict": None if review.verdict is None else review.verdict.value,
        "current": is_current,
    }


def _subject(subject: Subject) -> dict[str, Any]:
    out: dict[str, Any] = {
        "kind": subject.kind.value,
        "ref": subject.ref,
        "base": subject.base,
        "head": subject.head,
    }
    pull = subject.pull_request
    if pull is not None:
        out["pr"] = {"number": pull.number, "title": pull.title, "url": pull.url}
    return out


def artifact_answer(attempt: int, artifact: Artifact) -> dict[str, Any]:
    """Return the compact form of an artifact: which trees it lies between and its fingerprint."""
    out: dict[str, Any] = {
        "attempt": attempt,
        "base": {"commit": artifact.base_commit, "tree": artifact.base_tree},
        "result": {"tree": artifact.result_tree},
    }
    if artifact.fingerprint is not None:
        out["fingerprint"] = Fingerprint(artifact.fingerprint)
    return out


def totals(used: UsageView) -> tuple[float | None, int]:
    """Return the dollars (None when any price is unknown) and tokens of what was used."""
    cost = None if used.cost_is_partial else used.cost_usd
    return cost, used.input_tokens + used.output_tokens


def writers(spec: RunSpec) -> tuple[TaskSpec, ...]:
    """Return the tasks that change files, in input order."""
    return tuple(task for task in spec.tasks if task.kind is Kind.WRITER)


def cut_text(text: str, limit_bytes: int) -> str:
    """Return `text`, cut to at most `limit_bytes` of UTF-8 without splitting a character."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit_bytes:
        return text
    return data[: limit_bytes - 3].decode("utf-8", "ignore") + "…"


def _size(value: object) -> int:
    """Return how many bytes `value` takes as JSON text among its neighbours."""
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")) + 2


def _shortened(summary: dict[str, Any]) -> dict[str, Any]:
    """Shorten the largest parts first until the task fits a page by itself."""
    out = dict(summary, truncated=True)
    for key in sorted(_SHORTENED, key=lambda key: -_size(out.get(key))):
        size = _size(out)
        if size <= _SHORT_BYTES:
            break
        value = out.get(key)
        room = max(_KEPT_BYTES, _SHORT_BYTES - (size - _size(value)))
        if isinstance(value, str):
            out[key] = _leading_text(value, room)
        elif isinstance(value, list):
            out[key] = _leading_items(value, room)
    return out


def _leading_text(text: str, room_bytes: int) -> str:
    """Return the beginning of `text` that takes `room_bytes` as JSON; a control takes six."""
    used = _size("…")
    for at, character in enumerate(text):
        used += _size(character) - _size("")
        if used > room_bytes:
            return text[:at] + "…"
    return text


def _leading_items(items: list[Any], room_bytes: int) -> list[Any]:
    used = _size([])
    for at, item in enumerate(items):
        used += _size(item)
        if used > room_bytes:
            return items[:at]
    return items
