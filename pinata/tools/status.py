"""The tool that tells how a run stands; it is quick to load, since people wait for it."""

from typing import Annotated, Literal

import trio
from pydantic import Field

from agents.transcript import excerpt, read_transcript
from engine.core.errors import UsageError
from engine.core.ids import TaskId
from engine.records.fields import NotNull
from engine.records.request import Request
from pinata.tools.registry import RUN_PREFIX_RULE, Answer, RunPrefix, Tool, by_name
from pinata.work.context import Context
from pinata.work.places import Places
from pinata.work.run_answer import summarize
from pinata.work.saved_answer import saved_answer
from pinata.work.shown import RunCache, ShownRun
from pinata.work.summary import PAGE_TASKS, page
from pinata.work.unknown_task import UnknownTaskError
from worktrees.discovery import discover


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
