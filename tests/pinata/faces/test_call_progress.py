"""What a client is told while a call goes on, and how often."""

from pathlib import Path

import trio
from trio.testing import MockClock

from engine.core.events import (
    AttemptSettled,
    AttemptStarted,
    Event,
    RunStarted,
    TaskQueued,
    TextDelta,
    ToolStarted,
    TurnStarted,
)
from engine.core.ids import AttemptId, RunId, TaskId
from engine.core.outcome import AttemptOutcome, Status
from engine.core.view import RunView
from engine.records.event import Logged
from pinata.faces.call_progress import PAUSE_S, SILENCE_S, CallProgress
from pinata.work.observer import OpenedRun

NAMES = [TaskId(name) for name in ("one", "two", "three", "four", "five")]


def nothing(*_: object, **__: object) -> None:
    raise AssertionError


async def nothing_recorded(reason: str, task: TaskId | None = None) -> None:
    raise AssertionError


def opened(progress: CallProgress, *events: Event) -> None:
    run = OpenedRun(
        id=RunId("0123456789abcdef"),
        folder=Path("/nowhere"),
        started_at_ms=0,
        agents=dict.fromkeys(NAMES, "scout"),
        after=dict.fromkeys(NAMES, ()),
        view=RunView(),
        cancel=nothing,
        record_cancel=nothing_recorded,
        steer=nothing,
    )
    progress.run_opened(run)
    for seq, event in enumerate(events):
        progress.happened(Logged(seq, 0, event))


def started(*names: TaskId) -> list[Event]:
    return [
        RunStarted(5),
        *map(TaskQueued, NAMES),
        *(AttemptStarted(AttemptId(n, 1)) for n in names),
    ]


def test_call_without_a_run_is_named() -> None:
    assert CallProgress("pinata_verify").message == "pinata_verify is at work"


def test_run_is_told_by_what_its_agents_do() -> None:
    progress = CallProgress("pinata_run")
    done = AttemptSettled(AttemptId(NAMES[0], 1), AttemptOutcome(Status.FAILED, "no"))
    opened(progress, *started(*NAMES), done)
    progress.noted(ToolStarted(AttemptId(NAMES[1], 1), "c1", "bash", "make\x1b[2J " + 100 * "x"))
    progress.noted(TurnStarted(AttemptId(NAMES[2], 1), 1))
    told = progress.message.split("; ")
    assert told[0] == "run 0123456789abcdef: 1 of 5 tasks have settled"
    assert told[1].startswith("two: bash make")
    assert "\x1b" not in told[1]
    assert len(told[1]) < 100
    assert told[2:] == ["three: waits for its model", "four: running", "1 more are running"]


async def test_news_are_told_at_most_four_times_a_second_and_silence_now_and_then(
    autojump_clock: MockClock,
) -> None:
    progress = CallProgress("pinata_run")
    told: list[tuple[float, int]] = []
    begun = trio.current_time()

    async def tell(number: int, message: str) -> None:
        told.append((round(trio.current_time() - begun, 3), number))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(progress.report, tell)
        opened(progress, *started(NAMES[0]))
        for _ in range(50):
            await trio.sleep(0.01)
            progress.noted(TextDelta(AttemptId(NAMES[0], 1), "x"))
        await trio.sleep(2 * SILENCE_S)
        nursery.cancel_scope.cancel()
    busy = [n * PAUSE_S for n in range(4)]
    assert told == list(zip([*busy, 4 * PAUSE_S + SILENCE_S], range(1, 6), strict=True))
