"""Messages to running agents, from whoever holds the handle of an open run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from agents.steering import MAX_UNREAD_BYTES
from engine.core.errors import PinataError
from engine.core.events import (
    AttemptStarted,
    CheckStarted,
    Event,
    Sender,
    SteerDelivered,
)
from engine.core.ids import AttemptId, CheckId, TaskId
from engine.records.event import Logged
from pinata.work.attempts import MAX_STEER_BYTES
from pinata.work.observer import OpenedRun, SteerTask
from tests.support.projects import (
    PASS,
    Project,
    Recorder,
    approves,
    builder,
    read,
    requests_changes,
    reviewer,
    says,
    shell,
    statuses,
    submits,
)

FIX, JUDGE = TaskId("fix"), TaskId("judge")
FIRST = AttemptId(FIX, 1)
CHANGE = [shell("echo two > a.txt"), submits(changedFiles=["a.txt"])]
Act = Callable[[SteerTask], None]


@dataclass(slots=True)
class Listener(Recorder):
    """Steers when something happens, and keeps what it is refused with."""

    acts: Mapping[Event, Sequence[Act]] = field(default_factory=dict)
    steer: SteerTask | None = None
    refusals: list[PinataError] = field(default_factory=list)

    def run_opened(self, run: OpenedRun) -> None:
        Recorder.run_opened(self, run)
        self.steer = run.steer

    def happened(self, logged: Logged) -> None:
        Recorder.happened(self, logged)
        acts = self.acts.get(logged.event)
        if acts is not None:
            trio.lowlevel.spawn_system_task(self._act, acts)

    async def _act(self, acts: Sequence[Act]) -> None:
        """Steer when everybody waits for something: what was announced has begun by then."""
        await wait_all_tasks_blocked()
        assert self.steer is not None
        for act in acts:
            try:
                act(self.steer)
            except PinataError as error:
                self.refusals.append(error)

    @property
    def delivered(self) -> list[SteerDelivered]:
        return [event for event in self.events if isinstance(event, SteerDelivered)]


def listening(tmp_path: Path, acts: Mapping[Event, Sequence[Act]]) -> tuple[Project, Listener]:
    project = Project.create(tmp_path, {"a.txt": "one\n", "b.txt": "b\n"})
    listener = Listener(acts=acts)
    project.recorder = listener
    return project, listener


async def run(project: Project, **fields: Any) -> dict[str, Any]:
    tasks = [builder("fix", "a.txt", **fields), reviewer("judge", "fix")]
    return await project.run(tasks, {"fix": CHANGE, "judge": [approves()]})


@pytest.mark.slow
async def test_a_reviewer_reads_what_the_builder_was_told_and_by_whom(tmp_path: Path) -> None:
    def twice(steer: SteerTask) -> None:
        steer(FIX, "Use two words.\nNot three.")
        steer(FIX, "And no tabs.", sender=Sender.USER)

    project, listener = listening(tmp_path, {AttemptStarted(FIRST): (twice,)})
    answer = await run(project)
    assert statuses(answer) == {"fix": "succeeded", "judge": "succeeded"}
    assert listener.delivered == [
        SteerDelivered(FIRST, "Use two words.\nNot three.", follow_up=False),
        SteerDelivered(FIRST, "And no tabs.", follow_up=False, sender=Sender.USER),
    ]
    told = read((await project.result(answer["run"], "fix"))["transcript"])
    assert told.index("Use two words.") < told.index("And no tabs.") < told.index("echo two")
    brief = read((await project.result(answer["run"], "judge"))["transcript"])
    note = (
        "### Messages to the builder\\n\\nThese messages reached the builder while it worked."
        "\\n\\nFrom parent:\\n\\n> Use two words.\\n> Not three."
        "\\n\\nFrom user:\\n\\n> And no tabs."
    )
    assert note in brief


@pytest.mark.slow
async def test_a_follow_up_is_read_before_a_result_is_accepted(tmp_path: Path) -> None:
    def later(steer: SteerTask) -> None:
        steer(FIX, "Then say why.", follow_up=True)

    project, listener = listening(tmp_path, {AttemptStarted(FIRST): (later,)})
    done = submits(changedFiles=["a.txt"])
    script = {"fix": [*CHANGE, done], "judge": [approves()]}
    answer = await project.run([builder("fix", "a.txt"), reviewer("judge", "fix")], script)
    assert statuses(answer) == {"fix": "succeeded", "judge": "succeeded"}
    assert listener.delivered == [SteerDelivered(FIRST, "Then say why.", follow_up=True)]


@pytest.mark.slow
async def test_what_cannot_be_steered_is_refused_and_leaves_no_event(tmp_path: Path) -> None:
    project, listener = listening(
        tmp_path,
        {
            AttemptStarted(FIRST): (
                lambda steer: steer(JUDGE, "Too early."),
                lambda steer: steer(TaskId("nosuch"), "x"),
                lambda steer: steer(FIX, " \n"),
                lambda steer: steer(FIX, "é" * (MAX_STEER_BYTES // 2 + 1)),
            ),
            CheckStarted(FIRST, CheckId("pass")): (lambda steer: steer(FIX, "Too late."),),
            AttemptStarted(AttemptId(JUDGE, 1)): (lambda steer: steer(FIX, "Too late."),),
        },
    )
    await run(project, checks=[{"id": "pass", "argv": PASS}])
    assert [str(refusal) for refusal in listener.refusals] == [
        "task 'judge' is queued: only the agent of a running task can be steered",
        'task: "nosuch" is not a task of this run; it has fix and judge',
        "the message is blank: say what the agent should do",
        "the message is longer than 64 KiB: put the rest into a file",
        "task 'fix' is running, but its agent has ended and reads no more messages",
        "task 'fix' is succeeded: only the agent of a running task can be steered",
    ]
    assert listener.delivered == []


@pytest.mark.slow
async def test_more_than_an_agent_reads_is_refused_and_what_was_taken_is_read(
    tmp_path: Path,
) -> None:
    long = "x" * MAX_STEER_BYTES
    room = MAX_UNREAD_BYTES // MAX_STEER_BYTES
    project, listener = listening(
        tmp_path,
        {AttemptStarted(FIRST): (*[lambda steer: steer(FIX, long)] * (room + 2),)},
    )
    assert statuses(await run(project)) == {"fix": "succeeded", "judge": "succeeded"}
    refused = (
        f"the agent of task 'fix' has not read the {room} messages before this one: wait until it "
        "has read some of them"
    )
    assert [str(refusal) for refusal in listener.refusals] == [refused, refused]
    assert len(listener.delivered) == room


@pytest.mark.slow
async def test_after_a_repair_reviewers_still_read_what_was_said_before_it(tmp_path: Path) -> None:
    project, _ = listening(
        tmp_path,
        {
            AttemptStarted(FIRST): (lambda steer: steer(FIX, "Use two words."),),
            AttemptStarted(AttemptId(FIX, 2)): (lambda steer: steer(FIX, "And no tabs."),),
        },
    )
    script = {"fix": CHANGE, "judge": [requests_changes()], "judge@2": [approves()]}
    answer = await project.run([builder("fix", "a.txt"), reviewer("judge", "fix")], script)
    assert statuses(answer) == {"fix": "succeeded", "judge": "rejected"}
    call = {"run": answer["run"], "task": "fix", "feedback": "Once more."}
    repaired = await project.call("pinata_repair", call)
    assert statuses(repaired) == {"fix": "succeeded", "judge": "succeeded"}
    brief = read((await project.result(answer["run"], "judge"))["transcript"])
    assert "From parent:\\n\\n> Use two words.\\n\\nFrom parent:\\n\\n> And no tabs." in brief


@pytest.mark.slow
async def test_a_message_that_nobody_read_is_told_with_the_result(tmp_path: Path) -> None:
    def later(steer: SteerTask) -> None:
        steer(FIX, "Then say why.", follow_up=True)

    project, listener = listening(tmp_path, {AttemptStarted(FIRST): (later,)})
    answer = await project.run(
        [builder("fix", "a.txt")],
        {"fix": [says("read", path="a.txt")]},
        config={"limits": {"maxTurns": 1}},
    )
    assert statuses(answer) == {"fix": "failed"}
    result = await project.result(answer["run"], "fix")
    sentence = 'a message did not reach the agent before it ended: "Then say why."'
    assert sentence in result["notices"]
    assert listener.delivered == []
