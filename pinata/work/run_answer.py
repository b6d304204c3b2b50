"""What is answered about a run as a whole, to whoever asks for it or is told of its end."""

from pathlib import Path

import trio

from engine.core.outcome import Status
from engine.core.quote import name_list
from engine.system.holder import read_live_holder
from pinata.work.context import Context
from pinata.work.history import integration_state, list_handoffs
from pinata.work.owned_run import Answer
from pinata.work.places import Places
from pinata.work.receipt import ReceiptFolder, answer as receipt_answer
from pinata.work.retirement import is_retired, where_changes_are
from pinata.work.review import evidence_digest, missing_approval
from pinata.work.shown import ShownRun
from pinata.work.summary import PAGE_TASKS, page, status_counts, totals
from worktrees.hygiene import Repository
from worktrees.refs import evidence_ref, read_ref


async def summarize(
    context: Context,
    repository: Repository,
    shown: ShownRun,
    *,
    offset: int = 0,
    limit: int = PAGE_TASKS,
) -> Answer:
    """Return the summary of a run with one page of its tasks; nothing is written."""
    places = Places.of(repository, context.environment)
    out = await trio.to_thread.run_sync(
        lambda: _summary(context, places, shown, offset=offset, limit=limit)
    )
    if (state := await trio.to_thread.run_sync(integration_state, shown.folder)) is not None:
        out["integration"] = state
    receipt = await trio.to_thread.run_sync(
        ReceiptFolder(shown.folder.integration / "receipts").latest
    )
    if receipt is not None:
        from pinata.work.freshness import freshness  # noqa: PLC0415 - loads libgit2 when it is needed

        fresh = await freshness(Path(shown.record.root), context.environment, receipt)
        out["verification"] = {**receipt_answer(receipt), "freshness": fresh}
    ref = evidence_ref(shown.folder.run)
    if shown.spec.has_writers and (evidence := await read_ref(repository, ref)) is not None:
        out["evidence"] = {"ref": ref, "id": evidence}
    if handoffs := await trio.to_thread.run_sync(_handoffs, shown):
        out["handoffs"] = handoffs
    return out


def _handoffs(shown: ShownRun) -> list[dict[str, str]]:
    if not shown.folder.handoffs.is_dir():
        return []  # whether the change is approved takes every result of writers and reviewers
    approved = missing_approval(shown.spec, shown.results) is None
    current = evidence_digest(shown.spec, shown.results) if approved else None
    return list_handoffs(shown.folder, current)


def _summary(
    context: Context, places: Places, shown: ShownRun, *, offset: int, limit: int
) -> Answer:
    tasks, next_offset = page(shown.spec, shown.facts, shown.results, offset=offset, limit=limit)
    view = shown.view
    cost, tokens = totals(view.usage)
    status, reason = _standing(shown)
    end_ms = view.settled_at_ms or context.clock.now_ms()
    out: Answer = {
        "run": shown.folder.run,
        "dir": str(shown.folder.path),
        "status": status.value,
        "taskCount": len(shown.spec.tasks),
        "counts": status_counts(shown.facts),
        "tasks": tasks,
        "costUsd": cost,
        "tokens": tokens,
        "elapsedMs": end_ms - shown.record.started_at_ms - view.rested_ms,
    }
    if reason is not None:
        out["reason"] = reason
    if next_offset is not None:
        out["nextOffset"] = next_offset
    notices = list(shown.record.notices)
    if view.settled_at_ms is None and read_live_holder(places.run_lock(shown.folder.run)) is None:
        notices.append(
            "no live process owns this run: `pinata rerun` starts again what was lost, "
            "`pinata resume` goes on without it"
        )
        if context.runtime is not None and (why := context.runtime.failure(shown.folder.run)):
            notices.append(f"it broke off in this session: {why}")
    if is_retired(shown.folder):
        changes = where_changes_are(shown.folder) if shown.spec.has_writers else "its logs stay"
        notices.append(f"the run is retired, so it cannot go on or be integrated: {changes}")
    if notices:
        out["notices"] = notices
    return out


def _standing(shown: ShownRun) -> tuple[Status, str | None]:
    """Return how the run stands, and why where it did not succeed."""
    view = shown.view
    if view.settled_at_ms is None:
        return Status.RUNNING, view.reason
    if view.status is not Status.SUCCEEDED:
        return view.status, view.reason
    # Whatever the log says, a task whose result is lost since then did not demonstrably succeed.
    lost = [task for task, fact in shown.facts.items() if fact.status is not Status.SUCCEEDED]
    if not lost:
        return Status.SUCCEEDED, None
    return Status.FAILED, f"the saved results of {name_list(lost)} are missing or damaged"
