"""Answers as lines for a terminal. Pure: values in, text out."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from engine.core.quote import escape
from pinata.work.remedies import has_lost, to_mend

_MARKS = {"succeeded": "✓", "running": "▸", "queued": "·"}
_STREAMS = ("stdout", "stderr")
# What a verification that applied nothing sees: it cannot tell the one from the other.
_NOT_THERE = "not applied yet, or edited since"
SHORT_ID_CHARS = 8
_PROSE_LINES = 4
# What an integration left in the checkout, by how far it got.
_CHECKOUT = {
    "applying": "being changed, or not to the end: integrate again",
    "verifying": "applied, not verified to the end",
    "verified": "applied, verified",
    "applied_unverified": "applied, without checks",
    "verification_failed": "applied, verification failed",
    "rolling_back": "being rolled back, or not to the end: roll back again",
    "rolled_back": "rolled back",
}
WIDTH = 80
NARROWEST = 40


def visible(text: str) -> str:
    """Return `text` on one line with every control character shown instead of obeyed.

    What a model or a file says must not move the cursor, recolour the screen or forge a line.
    """
    return escape(text).replace("\n", " ").replace("\t", " ")


def short(whole: str) -> str:
    """Return as much of an id as people are shown, which is enough to name a run by."""
    return whole[:SHORT_ID_CHARS]


def run_lines(answer: Mapping[str, Any], width: int = WIDTH) -> Iterator[str]:
    """Yield the lines that show a run's summary.

    Args:
        answer: of `pinata_status`, for a whole run.
        width: where prose is wrapped.
    """
    if not answer.get("run"):
        yield answer["message"]
        return
    counts = ", ".join(f"{n} {status}" for status, n in answer["counts"].items())
    yield f"run {short(answer['run'])} {answer['status']} ({counts})"
    if answer.get("reason"):
        yield from _prose("reason", answer["reason"], width)
    tasks = answer["tasks"]
    room = max((len(task["id"]) for task in tasks), default=0)
    for task in tasks:
        yield from task_lines(task, width, room=room)
    if "nextOffset" in answer:
        yield f"  more tasks: --offset {answer['nextOffset']}"
    yield from notice_lines(answer, width)
    if state := answer.get("integration"):
        yield f"checkout: {_CHECKOUT[state]}"
    if receipt := answer.get("verification"):
        yield f"destination: {receipt['status']} (receipt {receipt['id']}, {receipt['freshness']})"
    if evidence := answer.get("evidence"):
        yield f"evidence: {evidence['id']}"
    cost = answer.get("costUsd")
    spent = "unknown cost" if cost is None else f"${cost:.4f}"
    yield f"{answer['elapsedMs'] / 1000:.1f} s, {answer['tokens']} tokens, {spent}"
    for task in to_mend(answer):
        yield f"to have it mended: pinata repair {answer['run']} {task} --feedback TEXT"
    if has_lost(answer):
        yield f"to start again what was lost: pinata rerun {answer['run']}"


def task_lines(task: Mapping[str, Any], width: int = WIDTH, *, room: int = 0) -> Iterator[str]:
    """Yield the lines that show a task's summary.

    Args:
        task: of `pinata_status`, one of the tasks.
        width: where prose is wrapped.
        room: how wide the column of task ids is.
    """
    mark = _MARKS.get(task["status"], "✗")
    yield f"  {mark} {task['id']:<{room}}  {task['status']} ({task['agent']})"
    for key in ("reason", "summary", "brief"):
        if task.get(key):
            yield from _prose(key, task[key], width)
    if task.get("changedFiles"):
        yield from _prose("changed", ", ".join(task["changedFiles"]), width)
    yield from _proof_lines(task, width)
    if verdict := task.get("verdict"):
        review = task["review"]
        bound = "current" if review["current"] else "stale"
        yield from _prose("verdict", f"{verdict} on {_judged(review['target'])} ({bound})", width)
    for finding in task.get("findings", ()):
        yield from _prose(finding["severity"], finding["message"], width)
    for key, label in (("blockers", "blocker"), ("notices", "notice")):
        for said in task.get(key, ()):
            yield from _prose(label, said, width)
    yield from _conversation_lines(task, width)


def _proof_lines(task: Mapping[str, Any], width: int) -> Iterator[str]:
    """Yield what a task's checks came to."""
    if checks := task.get("engineChecks"):
        parts = [f"{checks['passed']} passed", f"{checks['failed']} failed"]
        if checks["notRun"]:
            parts.append(f"{checks['notRun']} not run")
        yield from _prose("checks", ", ".join(parts), width)
    for check in task.get("failedChecks", ()):
        yield from _log_lines(check)


def _log_lines(check: Mapping[str, str]) -> Iterator[str]:
    """Yield where the output of a failed check lies; a path is not wrapped, so it can be copied."""
    for stream in _STREAMS:
        if stream in check:
            yield f"      {stream} of {visible(check['id'])}: {visible(check[stream])}"


def _conversation_lines(task: Mapping[str, Any], width: int) -> Iterator[str]:
    """Yield what helps to find out how an agent came to its end, where that was no success."""
    if "transcript" not in task:
        return
    usage = task["usage"]
    if refused := usage.get("refusedCalls"):
        said = f"{refused} of {usage['toolCalls']} were refused or failed"
        yield from _prose("tool calls", said, width)
    yield f"      transcript: {visible(task['transcript'])}"


def _judged(target: Mapping[str, Any]) -> str:
    """Return in a phrase what a verdict is about."""
    match target:
        case {"task": task}:
            return str(task)
        case {"pr": {"number": number}}:
            return f"pull request {number}"
        case {"kind": "uncommitted"}:
            return f"the uncommitted changes against {target['ref']}"
        case _:
            return f"the changes since {target['ref']}"


def _prose(label: str, said: str, width: int) -> list[str]:
    """Return a labelled paragraph of a few lines, cut where it would be longer."""
    return textwrap.wrap(
        f"{label}: {visible(said)}",
        width,
        initial_indent=" " * 6,
        subsequent_indent=" " * 8,
        max_lines=_PROSE_LINES,
        placeholder=" …",
        break_on_hyphens=False,
    )


def transcript_lines(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that show the end of a conversation."""
    if "excerpt" not in answer:
        yield answer["message"]
        return
    yield from answer["excerpt"].split("\n")
    yield f"(the end of {visible(answer['path'])})"


def tool_lines(tools: Sequence[Mapping[str, Any]], width: int = WIDTH) -> Iterator[str]:
    """Yield the lines that show what there is to call."""
    for tool in tools:
        yield tool["name"]
        yield from textwrap.wrap(
            tool["description"], width, initial_indent="  ", subsequent_indent="  "
        )


def outline_lines(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each run of a list of them."""
    if not answer["runs"]:
        yield "there are no runs yet"
    for run in answer["runs"]:
        name = short(run["run"])
        if "error" in run:
            yield f"{name}  {visible(run['error'])}"
            continue
        at = datetime.fromtimestamp(run["startedAt"] / 1000).astimezone()
        tasks = f"{run['taskCount']} task{'' if run['taskCount'] == 1 else 's'}"
        state = run.get("integration")
        applied = f"  {_CHECKOUT[state]}" if state else ""
        yield f"{name}  {at:%Y-%m-%d %H:%M}  {run['status']:<9}  {tasks}{applied}"


def notice_lines(answer: Mapping[str, Any], width: int = WIDTH) -> Iterator[str]:
    """Yield the lines that show an answer's notices, whole; only words are left unbroken."""
    for notice in answer.get("notices", ()):
        yield from textwrap.wrap(
            f"notice: {visible(notice)}",
            width,
            subsequent_indent=" " * 8,
            break_long_words=False,
            break_on_hyphens=False,
        )


def integration_lines(answer: Mapping[str, Any], width: int = WIDTH) -> Iterator[str]:
    """Yield the lines that show what an integration did."""
    yield f"run {short(answer['run'])} {answer['status']}"
    for entry in answer["files"]:
        yield f"  {entry['status']} {visible(entry['path'])}"
    yield from _check_lines(answer["checks"], logs=True)
    yield from _receipt_lines(answer["receipt"])
    yield from notice_lines(answer, width)
    if answer["status"] == "verification_failed":
        yield f"to take it back: pinata rollback {answer['run']} --confirm"


def verification_lines(answer: Mapping[str, Any], width: int = WIDTH) -> Iterator[str]:
    """Yield the lines that show what a verification of a destination saw."""
    yield f"run {short(answer['run'])} {answer['status']}, {answer['application']}"
    yield from _check_lines(answer["checks"], logs=True)
    for check in answer["omitted"]:
        yield f"  check {check} not run"
    yield from _receipt_lines(answer)
    yield from notice_lines(answer, width)


def evidence_lines(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that show what came of holding something against evidence."""
    pinned = "" if answer["pinned"] else " (nothing pins it)"
    application = answer.get("application")
    yield f"evidence {short(answer['evidence'])}{pinned}: {answer['status']}" + (
        f", {application}" if application else ""
    )
    for fault in answer["faults"]:
        yield f"  {visible(fault)}"
    for path in answer.get("differingPaths", ()):
        yield f"  not as approved: {visible(path)}"
    yield from _check_lines(answer["checks"], logs=False)
    for check in answer["omitted"]:
        yield f"  check {visible(check)} not run"
    if answer["status"] == "not_run" and answer["omitted"] and not answer["pinned"]:
        yield "to run them: give its full id, --expect ID, or --run-checks"


def _receipt_lines(receipt: Mapping[str, Any]) -> Iterator[str]:
    if receipt["status"] == "source_changed":
        yield "  the checkout changed while the checks ran"
    if receipt["differingPaths"]:
        shown = ", ".join(visible(path) for path in receipt["differingPaths"])
        has_applied_nothing = receipt.get("origin") == "verify"
        yield f"  {_NOT_THERE if has_applied_nothing else 'not as approved'}: {shown}"
    if receipt.get("noChecksReason"):
        yield f"  no checks: {visible(receipt['noChecksReason'])}"
    yield f"  receipt {receipt['id']}"


def changes_lines(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that show a hand-off."""
    yield f"run {short(answer['run'])} hand-off {short(answer['handoff'])}"
    for builder in answer["builders"]:
        approved = ", ".join(review["task"] for review in builder["reviews"])
        yield f"  {builder['task']} (approved by {approved})"
        for change in builder["changes"]:
            yield f"    {change['status']} {visible(change['path'])}"
        yield f"    patch: {visible(builder['patch']['path'])}"
        for refusal in builder["refusals"]:
            yield f"    never integrated: {visible(refusal)}"
    yield f"  manifest: {visible(answer['path'])}"


def _check_lines(checks: Sequence[Mapping[str, Any]], *, logs: bool) -> Iterator[str]:
    """Yield how each check ended, and with `logs` where the output of those that failed lies."""
    for check in checks:
        end = "passed" if check["passed"] else f"failed: {visible(check['reason'] or '')}"
        yield f"  check {visible(check['id'])} {end} ({check['ms']} ms)"
        if logs and not check["passed"]:
            kept = {name: check.get(name) for name in _STREAMS}
            paths = {name: log["path"] for name, log in kept.items() if log and log["bytes"]}
            yield from _log_lines({"id": check["id"], **paths})


def rollback_lines(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that show what became of each file."""
    yield f"run {short(answer['run'])} {answer['status']}"
    for entry in answer["files"]:
        yield f"  {entry['outcome']} {visible(entry['path'])}"
    yield from notice_lines(answer)


def doctor_lines(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that show what was found."""
    for finding in answer["findings"]:
        yield f"{'ok' if finding['ok'] else 'NO':>3}  {finding['what']}: {visible(finding['says'])}"
