"""A settled run as it lies on disk, without anybody having worked for it."""

import subprocess
from pathlib import Path

import trio

from engine.core.events import (
    AttemptSettled,
    AttemptStarted,
    Event,
    RunSettled,
    RunStarted,
    TaskQueued,
    UsageReported,
)
from engine.core.ids import AttemptId, TaskId
from engine.core.outcome import AttemptOutcome, Status
from engine.core.setup import Setup, SetupSource
from engine.core.spec import Kind, Mode, RunSpec, TaskSpec
from engine.eventlog import open_event_log
from engine.records.run import RunRecordV1, encode_run
from engine.records.spec import encode_spec
from engine.store import RunFolder
from engine.system import files
from engine.system.clock import SystemClock
from pinata.work.result import SavedResult, Usage, encode_result

_SUBMISSION = {
    "status": "succeeded",
    "summary": "did what was asked",
    "brief": "b" * 200,
    "findings": [],
    "blockers": [],
    "changedFiles": [],
    "checks": [],
}


async def make_run(root: Path, tasks: int) -> RunFolder:
    """Make a run of so many readers that all succeeded, in a new repository at `root`."""
    await trio.run_process(["git", "init", "-q", str(root)], stdout=subprocess.DEVNULL)
    folder = await trio.to_thread.run_sync(RunFolder.create, root / ".git")
    specs = tuple(
        TaskSpec(TaskId(f"t{number}"), "scout", Kind.READER, "look around")
        for number in range(tasks)
    )
    data = encode_run(_record(folder, root, RunSpec(specs)))
    await trio.to_thread.run_sync(
        lambda: files.replace_file(folder.run_file, data, fault="run.record")
    )
    attempts = [AttemptId(task.id, 1) for task in specs]
    results = [(attempt, encode_result(_result(attempt))) for attempt in attempts]
    digests = await trio.to_thread.run_sync(folder.save_results, results)
    async with open_event_log(
        folder.events_file, run=folder.run, clock=SystemClock(), mode=Mode.LEAN
    ) as log:
        await log.append([RunStarted(tasks), *(TaskQueued(task.id) for task in specs)])
        for attempt, digest in zip(attempts, digests, strict=True):
            log.note(UsageReported(attempt, 1, 2, 300, 40, 0.01))
            log.note(UsageReported(attempt, 2, 4, 600, 80, 0.02))
            await log.append(_work(attempt, digest))
        await log.append([RunSettled(Status.SUCCEEDED)])
    return folder


def _work(attempt: AttemptId, digest: str) -> list[Event]:
    outcome = AttemptOutcome(Status.SUCCEEDED, result_digest=digest, cost_usd=0.02)
    return [AttemptStarted(attempt), AttemptSettled(attempt, outcome)]


def _result(attempt: AttemptId) -> SavedResult:
    return SavedResult(
        attempt.task,
        "scout",
        attempt.number,
        Status.SUCCEEDED,
        submission=_SUBMISSION,
        usage=Usage(2, 4, 600, 80, 0.02),
    )


def _record(folder: RunFolder, root: Path, spec: RunSpec) -> RunRecordV1:
    now_ms = SystemClock().now_ms()
    return RunRecordV1(
        run=folder.run,
        root=str(root),
        started_in=str(root),
        started_at_ms=now_ms,
        deadline_at_ms=now_ms + 3_600_000,
        head=None,
        base_commit=None,
        base_tree=None,
        uncommitted=[],
        fold_case=False,
        definitions={},
        setup=Setup(SetupSource.NOT_NEEDED),
        mark="0" * 32,
        notices=[],
        spec=encode_spec(spec),
    )
