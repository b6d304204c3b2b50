"""Runs in the background, and reaching into them: messages to agents, and the end."""

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from engine.core.errors import ConflictError, UsageError
from engine.core.events import CancelRequested, Event, SteerDelivered
from engine.core.ids import AttemptId, RunId, TaskId
from engine.logreader import replay
from engine.records.run import RunRecordV1, encode_run as encode_record
from engine.store import RunFolder
from pinata.work.observer import OpenedRun
from pinata.work.owned_run import OwnedRun
from tests.support.programs import Beacon, open_beacon
from tests.support.projects import (
    LEAVING,
    Project,
    Turn,
    approves,
    builder,
    read,
    reports,
    reviewer,
    scout,
    shell,
    statuses,
    submits,
)

FIX = TaskId("fix")
ORDERS = (SteerDelivered, CancelRequested)
CHANGE = [shell("echo two > a.txt"), submits(changedFiles=["a.txt"])]
PAIR = [builder("fix", "a.txt"), reviewer("judge", "fix")]


@dataclass(slots=True)
class Stage:
    """A project whose builder says when it is at work, and goes on when it is told to."""

    project: Project
    beacon: Beacon
    go: Path

    @property
    def pause(self) -> Turn:
        """The turn in which it waits."""
        return shell(f"echo at work > {self.beacon.path}; read line < {self.go}")

    @property
    def script(self) -> dict[str, list[Turn]]:
        """A builder that waits once, and a reviewer who approves."""
        return {"fix": [self.pause, *CHANGE], "judge": [approves()]}

    async def start(self, tasks: Any = PAIR, script: Any = None, **fields: Any) -> dict[str, Any]:
        """Start a run in the background and return the answer once the builder is at work."""
        job = self.project.job(tasks, script or self.script, background=True, **fields)
        answer = await self.project.call("pinata_run", job)
        assert await self.beacon.line() == "at work"
        return answer

    async def let_go(self) -> None:
        """Let the builder go on."""
        await trio.to_thread.run_sync(self.go.write_text, "\n")

    def recorded(self, run: str) -> list[Event]:
        """The events of a run."""
        folder = RunFolder(self.project.repo.root / ".git" / "pinata" / run)
        return [logged.event for logged in replay(folder.events_file, RunId(run))]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    project = Project.create(tmp_path, {"a.txt": "one\n", "b.txt": "b\n"})
    go = tmp_path / "go"
    os.mkfifo(go)
    with open_beacon(tmp_path) as beacon:
        yield Stage(project, beacon, go)


class Ends:
    """Hears which runs have ended."""

    def __init__(self) -> None:
        self._send, self._receive = trio.open_memory_channel[OwnedRun](9)

    async def __call__(self, ended: OwnedRun) -> None:
        await self._send.send(ended)

    async def answer(self) -> dict[str, Any]:
        """Wait for the next one's answer."""
        return await (await self._receive.receive()).wait_answer()


@pytest.mark.slow
async def test_run_in_the_background_is_answered_at_once_and_announced_when_it_has_ended(
    stage: Stage,
) -> None:
    ends = Ends()
    async with stage.project.owning(ends):
        answer = await stage.start()
        folder = stage.project.repo.root / ".git" / "pinata" / answer["run"]
        notices = answer.pop("notices")
        assert answer == {
            "run": folder.name,
            "dir": str(folder),
            "status": "running",
            "background": True,
        }
        assert notices[0].startswith("tasks fix and judge have no acceptance criteria")
        shown = await stage.project.call("pinata_status", {})
        assert statuses(shown) == {"fix": "running", "judge": "queued"}
        await stage.let_go()
        ended = await ends.answer()
        assert statuses(ended) == {"fix": "succeeded", "judge": "succeeded"}
        assert "evidence" in ended
        shown = await stage.project.call("pinata_status", {"run": answer["run"]})
        assert shown == ended


@pytest.mark.slow
async def test_messages_reach_the_agent_and_its_reviewer_with_their_sender_in_order(
    stage: Stage,
) -> None:
    ends = Ends()
    script = stage.script
    script["fix"].append(CHANGE[-1])  # a follow-up is read before a result is accepted
    async with stage.project.owning(ends):
        run = (await stage.start(script=script))["run"]
        said = {"run": run[:6], "task": "fix", "message": "Use two words."}
        answers = [
            await stage.project.call("pinata_steer", said),
            await stage.project.call(
                "pinata_steer", said | {"message": "Say why.", "as": "followUp"}
            ),
            await stage.project.call("pinata_steer", said | {"message": "No tabs.", "as": "steer"}),
        ]
        assert answers == [
            {"run": run, "task": "fix", "delivered": way} for way in ("steer", "followUp", "steer")
        ]
        await stage.let_go()
        ended = await ends.answer()
    assert ended["status"] == "succeeded", ended
    first = AttemptId(FIX, 1)
    assert [each for each in stage.recorded(run) if isinstance(each, SteerDelivered)] == [
        SteerDelivered(first, "Use two words.", follow_up=False),
        SteerDelivered(first, "No tabs.", follow_up=False),
        SteerDelivered(first, "Say why.", follow_up=True),
    ]
    brief = read((await stage.project.result(run, "judge"))["transcript"])
    told = ("Use two words.", "No tabs.", "Say why.")
    assert "\\n\\n".join(f"From parent:\\n\\n> {each}" for each in told) in brief


async def refusal(project: Project, tool: str, **arguments: object) -> str:
    """Return the sentence with which a call is refused."""
    with pytest.raises((UsageError, ConflictError)) as refused:
        await project.call(tool, arguments)
    return str(refused.value)


@pytest.mark.slow
async def test_what_cannot_be_steered_or_cancelled_is_refused_and_leaves_no_event(
    stage: Stage,
) -> None:
    project, ends = stage.project, Ends()
    async with project.owning(ends):
        run = (await stage.start([scout("look"), *PAIR], stage.script | {"look": [reports()]}))[
            "run"
        ]
        steering = {"run": run, "message": "Too late."}
        only = "only the agent of a running task can be steered"
        assert await refusal(project, "pinata_steer", task="judge", **steering) == (
            f"task 'judge' is queued: {only}"
        )
        assert '"nosuch" is not a task of this run' in await refusal(
            project, "pinata_steer", task="nosuch", **steering
        )
        assert await refusal(
            project, "pinata_steer", run=run, task="fix", message="é" * (32 << 10) + "x"
        ) == ("the message is longer than 64 KiB: put the rest into a file")
        assert await refusal(project, "pinata_cancel", run=run, task="fix", why="x") == (
            'unknown field "why"; the fields are run and task'
        )
        assert await refusal(project, "pinata_cancel", run=run, task="nosuch") == (
            'task: "nosuch" is not a task of this run; it has look, fix and judge'
        )
        assert not any(isinstance(each, ORDERS) for each in stage.recorded(run))
        await stage.let_go()
        await ends.answer()
        ended = stage.recorded(run)
        assert await refusal(project, "pinata_steer", task="fix", **steering) == (
            f"task 'fix' is succeeded: {only}"
        )
        assert await refusal(project, "pinata_cancel", run=run, task="fix") == (
            "task 'fix' is succeeded already: there is nothing to cancel"
        )
        assert await refusal(project, "pinata_cancel", run=run) == (
            f"run {run} is succeeded already: there is nothing to cancel"
        )
        assert await refusal(project, "pinata_cancel", run=run, task="nosuch") == (
            'task: "nosuch" is not a task of this run; it has look, fix and judge'
        )
    assert stage.recorded(run) == ended


@pytest.mark.slow
async def test_queued_task_is_cancelled_at_once_and_a_running_one_when_its_agent_is_gone(
    stage: Stage,
) -> None:
    project, ends = stage.project, Ends()
    async with project.owning(ends):
        tasks = [*PAIR, reviewer("again", "fix")]
        run = (await stage.start(tasks))["run"]
        cancelled = await project.call("pinata_cancel", {"run": run, "task": "judge"})
        assert cancelled == {"run": run, "task": "judge", "cancelled": True}
        shown = await project.call("pinata_status", {"run": run})
        assert statuses(shown) == {"fix": "running", "judge": "cancelled", "again": "queued"}
        requested = await project.call("pinata_cancel", {"run": run, "task": "fix"})
        assert requested == {"run": run, "task": "fix", "requested": True}
        ended = await ends.answer()
    assert ended["status"] == "failed"
    assert statuses(ended) == {"fix": "cancelled", "judge": "cancelled", "again": "blocked"}


@pytest.mark.slow
async def test_cancelling_a_run_twice_records_it_once(stage: Stage) -> None:
    project, ends = stage.project, Ends()
    async with project.owning(ends):
        run = (await stage.start())["run"]
        answers: list[dict[str, Any]] = []

        async def cancel() -> None:
            # The run may have settled before the second order is looked at, which is then refused.
            with suppress(ConflictError):
                answers.append(await project.call("pinata_cancel", {"run": run}))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancel)
            nursery.start_soon(cancel)
        said = ({"run": run, "requested": True}, {"run": run, "cancelled": True})
        assert answers
        assert all(answer in said for answer in answers)
        ended = await ends.answer()
    assert (ended["status"], statuses(ended)) == (
        "cancelled",
        {"fix": "cancelled", "judge": "cancelled"},
    )
    orders = [each for each in stage.recorded(run) if isinstance(each, CancelRequested)]
    assert orders == [CancelRequested("cancelled by the coordinator")]


@pytest.mark.slow
async def test_leaving_cancels_what_goes_on_with_a_reason_and_leaves_nothing_running(
    stage: Stage,
) -> None:
    async with stage.project.owning():
        run = (await stage.start())["run"]
    shown = await stage.project.call("pinata_status", {"run": run})
    assert shown["status"] == "cancelled"
    assert [task["reason"] for task in shown["tasks"]] == [LEAVING, LEAVING]


@pytest.mark.slow
async def test_leaving_while_a_run_is_still_being_made_leaves_nothing_of_it(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, refs = stage.project, stage.project.refs()
    # The last step of making a run: its record is durable when the thread comes back.
    making, go_on = threading.Event(), threading.Event()

    def encode_run(record: RunRecordV1) -> bytes:
        making.set()
        go_on.wait()
        return encode_record(record)

    monkeypatch.setattr("pinata.work.creation.encode_run", encode_run)
    refusals: list[str] = []

    async def run() -> None:
        job = project.job(PAIR, stage.script)
        refusals.append(await refusal(project, "pinata_run", **job))

    async with trio.open_nursery() as nursery, project.owning() as runtime:
        nursery.start_soon(run)
        await trio.to_thread.run_sync(making.wait)
        nursery.start_soon(runtime.close, LEAVING)
        await trio.testing.wait_all_tasks_blocked()
        go_on.set()
    assert refusals == [f"cancelled before anything began: {LEAVING}"]
    assert project.runs == []
    assert project.refs() == refs


@pytest.mark.slow
async def test_run_whose_creation_is_given_up_at_its_last_moment_is_closed_in_order(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = stage.project
    async with project.owning() as runtime:
        kept = OwnedRun.run_opened

        def run_opened(self: OwnedRun, run: OpenedRun) -> None:
            kept(self, run)
            self.request_cancel("at once")

        monkeypatch.setattr(OwnedRun, "run_opened", run_opened)
        answer = await project.run(PAIR, stage.script)
        assert runtime.find(answer["run"]) is None
    assert answer["status"] == "cancelled"
    assert [task["reason"] for task in answer["tasks"]] == 2 * ["at once"]


@pytest.mark.slow
async def test_call_that_is_given_up_ends_its_run_in_order(stage: Stage) -> None:
    project = stage.project
    async with project.owning():
        with trio.CancelScope() as call:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(project.run, PAIR, stage.script)
                assert await stage.beacon.line() == "at work"
                call.cancel()
        assert call.cancelled_caught
    shown = await project.call("pinata_status", {})
    assert shown["status"] == "cancelled"
    assert shown["tasks"][0]["reason"] == "the call for it was cancelled"


@pytest.mark.slow
async def test_run_that_another_process_owns_is_steered_and_cancelled_through_its_socket(
    stage: Stage,
) -> None:
    project, ends = stage.project, Ends()
    async with project.owning(ends):
        run = (await stage.start())["run"]
        own, project.runtime = project.runtime, None
        steering = {"run": run, "task": "fix", "message": "Use two words."}
        assert await project.call("pinata_steer", steering) == {
            "run": run,
            "task": "fix",
            "delivered": "steer",
        }
        only = "only the agent of a running task can be steered"
        assert await refusal(project, "pinata_steer", **steering | {"task": "judge"}) == (
            f"task 'judge' is queued: {only}"
        )
        assert '"nosuch" is not a task of this run' in await refusal(
            project, "pinata_cancel", run=run, task="nosuch"
        )
        cancelled = await project.call("pinata_cancel", {"run": run, "task": "judge"})
        assert cancelled == {"run": run, "task": "judge", "cancelled": True}
        await stage.let_go()
        await ends.answer()
        project.runtime = own
    assert [each for each in stage.recorded(run) if isinstance(each, ORDERS)] == [
        CancelRequested("cancelled by the coordinator", TaskId("judge")),
        SteerDelivered(AttemptId(FIX, 1), "Use two words.", follow_up=False),
    ]


@pytest.mark.slow
async def test_background_and_survive_are_refused_where_nobody_could_keep_the_run(
    stage: Stage,
) -> None:
    project = stage.project
    job = project.job([scout("look")], {"look": [reports()]}, background=True)
    assert "background: this process ends with its run" in await refusal(
        project, "pinata_run", **job
    )
    async with project.owning():
        assert await refusal(project, "pinata_run", **job, survive=True) == (
            "survive: a run outlives its owner only in a Pi session's host; leave it out here"
        )
    assert project.runs == []
