"""The tool that tells how a run stands; it is quick to load, since people wait for it."""

from pathlib import Path
from typing import Annotated, Literal

import trio
from pydantic import Field

from agents.transcript import excerpt, read_transcript
from engine.core.errors import UsageError
from engine.core.ids import TaskId
from engine.core.outcome import Status
from engine.core.quote import name_list
from engine.records.fields import NotNull
from engine.records.request import Request
from engine.system.holder import read_live_holder
from pinata.tools.registry import RUN_PREFIX_RULE, Answer, RunPrefix, Tool, by_name
from pinata.work.context import Context
from pinata.work.history import integration_state, list_handoffs
from pinata.work.places import Places
from pinata.work.receipt import ReceiptFolder, answer as receipt_answer
from pinata.work.review import evidence_digest, missing_approval
from pinata.work.saved_answer import saved_answer
from pinata.work.shown import RunCache, ShownRun
from pinata.work.summary import PAGE_TASKS, page, status_counts, totals
from pinata.work.unknown_task import UnknownTaskError
from worktrees.discovery import discover
from worktrees.hygiene import Repository
from worktrees.refs import evidence_ref, read_ref


class StatusRequest(Request):
    """Which run or task to tell about."""

    run: Annotated[
        RunPrefix | None,
        NotNull(),
        Field(description=f"{RUN_PREFIX_RULE}; the latest without it"),
    ] = None
    task: Annotated[str | None, NotNull(), Field(description="the id of one task of the run")] = (
        None
    )
    offset: Annotated[
        int | None, NotNull(), Field(ge=0, description="0 or more: the first task of the page")
    ] = None
    limit: Annotated[
        int | None,
        NotNull(),
        Field(ge=1, le=PAGE_TASKS, description=f"1 to {PAGE_TASKS}: the most tasks of the page"),
    ] = None
    detail: Annotated[
        Literal["summary", "result", "transcript"] | None,
        NotNull(),
        Field(description='"summary", "result" or "transcript"; the last two need a task'),
    ] = None


async def status(context: Context, request: StatusRequest) -> Answer:
    """Return how a run or one of its tasks stands; nothing is written."""
    _check_status(request)
    repository = await discover(context.cwd, context.environment)
    places = Places.of(repository, context.environment)
    found = await trio.to_thread.run_sync(_read, context.cache, places, request)
    if found is None:
        return {"taskCount": 0, "counts": {}, "tasks": [], "message": "there are no runs yet"}
    if request.task is not None:
        detail = request.detail or "summary"
        return await trio.to_thread.run_sync(_task_answer, found, request.task, detail)
    return await summarize(
        context, repository, found, offset=request.offset or 0, limit=request.limit or PAGE_TASKS
    )


def _check_status(request: StatusRequest) -> None:
    if request.task is None and request.detail not in (None, "summary"):
        raise UsageError(f'detail: "{request.detail}" is about one task: name it in task')
    if request.task is not None and (request.offset, request.limit) != (None, None):
        field = "offset" if request.offset is not None else "limit"
        raise UsageError(f"{field}: pages are of whole runs: leave it out, or leave task out")


def _read(cache: RunCache, places: Places, request: StatusRequest) -> ShownRun | None:
    folder = cache.find(places.common, request.run)
    return None if folder is None else cache.read(folder)


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
        notices.append("no live process owns this run: `pinata resume` finishes or closes it")
        if context.runtime is not None and (why := context.runtime.failure(shown.folder.run)):
            notices.append(f"it broke off in this session: {why}")
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


def _task_answer(shown: ShownRun, name: str, detail: str) -> Answer:
    task = next((one for one in shown.spec.tasks if one.id == name), None)
    if task is None:
        raise UnknownTaskError(name, [one.id for one in shown.spec.tasks])
    if detail == "summary":
        at = shown.spec.tasks.index(task)
        tasks, _ = page(shown.spec, shown.facts, shown.results, offset=at, limit=1)
        return {"run": shown.folder.run, **tasks[0]}
    if detail == "result":
        return saved_answer(shown, task)
    return _transcript_answer(shown, task.id)


def _transcript_answer(shown: ShownRun, task: TaskId) -> Answer:
    folder = shown.folder
    view = shown.view.tasks.get(task)
    out: Answer = {"run": folder.run, "id": task}
    attempt = 0 if view is None else view.attempt
    path = folder.transcripts / f"{task}.{attempt}.jsonl"
    if not path.is_file():
        return {**out, "message": "there is no transcript: the agent has not started"}
    return {**out, "path": str(path), "excerpt": excerpt(read_transcript(path))}


_STATUS = Tool(
    name="pinata_status",
    description=(
        "Tell how a run stands: the latest one, or the one that `run` names; call it to follow a "
        "run that was started in the background. A task's `reason` says why it did not succeed. "
        "Tasks come in pages "
        "of at most 64; `nextOffset` is the `offset` of the next. With `task`, `detail` asks for "
        "the whole saved result, check evidence included, or the end of the conversation. Tells of "
        "the latest integration or verification too, and whether it is still current: "
        "`integration` says how far the former got, and whether it was rolled back. Changes "
        "nothing."
    ),
    request=StatusRequest,
    handler=status,
    changes_state=False,
)
TOOLS = by_name(_STATUS)
