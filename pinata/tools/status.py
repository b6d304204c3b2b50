"""The tool that tells how a run stands; it is quick to load, since people wait for it."""

from pathlib import Path
from typing import Annotated, Literal

import trio
from pydantic import Field

from agents.transcript import excerpt, read_transcript
from engine.core.errors import UsageError
from engine.core.ids import TaskId
from engine.core.outcome import Status
from engine.records.fields import NotNull
from engine.records.request import Request
from engine.system.locks import read_live_holder
from pinata.tools.registry import RUN_PREFIX_RULE, Answer, RunPrefix, Tool, by_name
from pinata.work.context import Context
from pinata.work.history import StoredRun, find_run, list_handoffs, read_run
from pinata.work.places import Places
from pinata.work.receipt import ReceiptFolder, answer as receipt_answer
from pinata.work.review import evidence_digest, missing_approval
from pinata.work.saved_answer import saved_answer
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
    found = await trio.to_thread.run_sync(_read, places, request)
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


def _read(places: Places, request: StatusRequest) -> StoredRun | None:
    folder = find_run(places.common, request.run)
    return None if folder is None else read_run(folder)


async def summarize(
    context: Context,
    repository: Repository,
    stored: StoredRun,
    *,
    offset: int = 0,
    limit: int = PAGE_TASKS,
) -> Answer:
    """Return the summary of a run with one page of its tasks; nothing is written."""
    places = Places.of(repository, context.environment)
    out = await trio.to_thread.run_sync(
        lambda: _summary(context, places, stored, offset=offset, limit=limit)
    )
    receipt = await trio.to_thread.run_sync(
        ReceiptFolder(stored.folder.integration / "receipts").latest
    )
    if receipt is not None:
        from pinata.work.freshness import freshness  # noqa: PLC0415 - loads libgit2 when it is needed

        fresh = await freshness(Path(stored.record.root), context.environment, receipt)
        out["verification"] = {**receipt_answer(receipt), "freshness": fresh}
    ref = evidence_ref(stored.folder.run)
    if stored.spec.has_writers and (evidence := await read_ref(repository, ref)) is not None:
        out["evidence"] = {"ref": ref, "id": evidence}
    if handoffs := await trio.to_thread.run_sync(_handoffs, stored):
        out["handoffs"] = handoffs
    return out


def _handoffs(stored: StoredRun) -> list[dict[str, str]]:
    approved = missing_approval(stored.spec, stored.results) is None
    current = evidence_digest(stored.spec, stored.results) if approved else None
    return list_handoffs(stored.folder, current)


def _summary(
    context: Context, places: Places, stored: StoredRun, *, offset: int, limit: int
) -> Answer:
    tasks, next_offset = page(stored.spec, stored.facts, stored.results, offset=offset, limit=limit)
    view = stored.view
    cost, tokens = totals(view.usage)
    end_ms = view.settled_at_ms or context.clock.now_ms()
    out: Answer = {
        "run": stored.folder.run,
        "dir": str(stored.folder.path),
        "status": Status.RUNNING.value if view.settled_at_ms is None else view.status.value,
        "taskCount": len(stored.spec.tasks),
        "counts": status_counts(stored.facts),
        "tasks": tasks,
        "costUsd": cost,
        "tokens": tokens,
        "elapsedMs": end_ms - stored.record.started_at_ms - view.rested_ms,
    }
    if view.reason is not None and view.status is not Status.SUCCEEDED:
        out["reason"] = view.reason
    if next_offset is not None:
        out["nextOffset"] = next_offset
    notices = list(stored.record.notices)
    if view.settled_at_ms is None and read_live_holder(places.run_lock(stored.folder.run)) is None:
        notices.append("no live process owns this run: `pinata resume` finishes or closes it")
        if context.runtime is not None and (why := context.runtime.failure(stored.folder.run)):
            notices.append(f"it broke off in this session: {why}")
    if notices:
        out["notices"] = notices
    return out


def _task_answer(stored: StoredRun, name: str, detail: str) -> Answer:
    task = next((one for one in stored.spec.tasks if one.id == name), None)
    if task is None:
        raise UnknownTaskError(name, [one.id for one in stored.spec.tasks])
    if detail == "summary":
        at = stored.spec.tasks.index(task)
        tasks, _ = page(stored.spec, stored.facts, stored.results, offset=at, limit=1)
        return {"run": stored.folder.run, **tasks[0]}
    if detail == "result":
        return saved_answer(stored, task)
    return _transcript_answer(stored, task.id)


def _transcript_answer(stored: StoredRun, task: TaskId) -> Answer:
    folder = stored.folder
    view = stored.view.tasks.get(task)
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
        "the latest integration or verification too, and whether it is still current. Changes "
        "nothing."
    ),
    request=StatusRequest,
    handler=status,
    changes_state=False,
)
TOOLS = by_name(_STATUS)
