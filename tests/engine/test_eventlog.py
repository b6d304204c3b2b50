import os
import stat
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from engine.core.errors import CorruptionError, ExternalError
from engine.core.events import (
    AttemptSettled,
    AttemptStarted,
    ContextCompacted,
    Event,
    MessageEnded,
    ModelThrottled,
    RunResumed,
    RunSettled,
    RunStarted,
    TaskQueued,
    TelemetryReported,
    TextDelta,
    ThinkingDelta,
    ToolEnded,
    ToolStarted,
    ToolUpdated,
    Trace,
    TurnStarted,
    UsageReported,
)
from engine.core.ids import AttemptId, RunId, TaskId
from engine.core.limiter import Limiter
from engine.core.outcome import AttemptOutcome, Status
from engine.core.spec import Limits, Mode
from engine.core.view import RunView
from engine.eventlog import EventLog, LogWriteError, open_event_log
from engine.inbox import Inbox
from engine.logreader import replay
from engine.ports import Reporter
from engine.records.event import Logged, encode_event
from engine.scheduler import Means, Terms, run_graph
from engine.system import faults
from tests.support.clock import FakeClock, LoopClock
from tests.support.executors import SUCCESS, ScriptedExecutor
from tests.support.graphs import graph_of, independent

RUN = RunId("0123456789abcdef")
A1, B1 = AttemptId(TaskId("a"), 1), AttemptId(TaskId("b"), 1)
START = 1_700_000_000_000
TALK: tuple[Trace, ...] = (
    TurnStarted(A1, 1),
    ThinkingDelta(A1, "hm"),
    TextDelta(A1, "so"),
    ToolStarted(A1, "1", "read", "x"),
    ToolUpdated(A1, "1", "read", "y"),
    ToolEnded(A1, "1", "read", is_error=False),
    TelemetryReported(A1, 1.5, 2, 3, 4, 5, 6),
    MessageEnded(A1, "stop"),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


@pytest.fixture
def disarmed() -> Iterator[None]:
    yield
    faults.install("")


@asynccontextmanager
async def opened(
    path: Path, mode: Mode = Mode.OBSERVE, clock: FakeClock | None = None
) -> AsyncIterator[EventLog]:
    async with open_event_log(path, run=RUN, clock=clock or FakeClock(), mode=mode) as log:
        yield log


def written(path: Path) -> list[Event]:
    return [logged.event for logged in replay(path, RUN)]


def usage(cost: float, attempt: AttemptId = A1) -> UsageReported:
    return UsageReported(attempt, 1, 0, 0, 0, cost)


def put(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def stored(path: Path) -> bytes:
    return path.read_bytes()


def link(path: Path, target: Path) -> None:
    target.touch()
    path.symlink_to(target)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def lines(events: Sequence[Event]) -> bytes:
    return b"".join(
        encode_event(event, seq=seq, run=RUN, at_ms=START) for seq, event in enumerate(events)
    )


async def test_events_are_read_back_in_order_with_their_place_and_time(path: Path) -> None:
    clock = FakeClock()
    async with opened(path, clock=clock) as log:
        await log.append([RunStarted(1), TaskQueued(A1.task)])
        clock.advance(5)
        await log.append([AttemptStarted(A1)])
        assert replay(path, RUN) == [
            Logged(0, START, RunStarted(1)),
            Logged(1, START, TaskQueued(A1.task)),
            Logged(2, START + 5, AttemptStarted(A1)),
        ]
    assert mode_of(path) == 0o600


async def test_a_log_that_is_not_there_is_empty(path: Path) -> None:
    assert replay(path, RUN) == []


async def test_numbers_go_on_where_they_ended(path: Path) -> None:
    for number in range(3):
        async with opened(path) as log:
            await log.append([RunResumed(str(number))])
    assert [logged.seq for logged in replay(path, RUN)] == [0, 1, 2]


async def test_traces_come_before_the_decision_that_follows_them(path: Path) -> None:
    async with opened(path) as log:
        for event in TALK:
            log.note(event)
        await log.append([RunResumed("x")])
        assert written(path) == [*TALK, RunResumed("x")]


async def test_numbers_have_no_gap_when_everything_is_kept(path: Path) -> None:
    async with opened(path) as log:
        await log.append([RunStarted(1)])
        for event in TALK:
            log.note(event)
        await log.append([RunResumed("x")])
        log.note(TALK[0])
    assert [logged.seq for logged in replay(path, RUN)] == list(range(len(TALK) + 3))


async def test_traces_are_written_within_a_quarter_of_a_second(
    path: Path, autojump_clock: MockClock
) -> None:
    send, receive = trio.open_memory_channel[Logged](2)
    async with opened(path) as log:
        log.subscribe(send.send_nowait)
        for _ in range(2):
            noted_at_s = trio.current_time()
            log.note(TextDelta(A1, "so"))
            await wait_all_tasks_blocked()
            log.note(TextDelta(A1, "on"))
            told = [await receive.receive(), await receive.receive()]
            assert trio.current_time() - noted_at_s <= 0.25
            assert written(path)[-2:] == [logged.event for logged in told]


async def test_traces_that_went_along_with_a_decision_are_not_written_again(
    path: Path, autojump_clock: MockClock
) -> None:
    async with opened(path) as log:
        log.note(TALK[0])
        await log.append([RunResumed("x")])
        await trio.sleep(1)
        assert written(path) == [TALK[0], RunResumed("x")]


async def test_an_idle_log_has_no_timer(path: Path, mock_clock: MockClock) -> None:
    async with opened(path) as log:
        for number in range(2):
            await log.append([RunResumed(str(number))])
            await wait_all_tasks_blocked()
            assert trio.lowlevel.current_statistics().seconds_to_next_deadline == float("inf")
            log.note(TALK[0])
            await wait_all_tasks_blocked()
            mock_clock.jump(0.25)


async def test_leaving_writes_what_is_buffered(path: Path) -> None:
    async with opened(path) as log:
        log.note(TextDelta(A1, "so"))
    assert written(path) == [TextDelta(A1, "so")]


async def test_a_lean_log_leaves_talk_out_and_keeps_what_is_rare(path: Path) -> None:
    rare: list[Trace] = [ModelThrottled(A1, 2.5), ContextCompacted(A1, 9_000)]
    async with opened(path, Mode.LEAN) as log:
        for event in (*TALK, *rare):
            log.note(event)
        await log.append([RunResumed("x")])
    assert written(path) == [*rare, RunResumed("x")]


async def test_a_lean_log_thins_usage_and_keeps_the_last_one(path: Path) -> None:
    clock = FakeClock()
    async with opened(path, Mode.LEAN, clock) as log:
        for cost in (0.1, 0.2, 0.3):
            log.note(usage(cost))
            log.note(usage(cost, B1))
            clock.advance(600)
        log.note(usage(0.4))
        settled = AttemptSettled(A1, AttemptOutcome(Status.SUCCEEDED, cost_usd=0.4))
        await log.append([settled])
        assert written(path) == [
            usage(0.1),
            usage(0.1, B1),
            usage(0.3),
            usage(0.3, B1),
            usage(0.4),
            settled,
        ]


async def test_usage_that_was_held_back_is_written_on_leaving(path: Path) -> None:
    async with opened(path, Mode.LEAN) as log:
        log.note(usage(0.1))
        log.note(usage(0.2))
    assert written(path) == [usage(0.1), usage(0.2)]


@pytest.mark.parametrize("torn", [b'{"v":1,"se', b"\x00\x00\x00", b"{}"])
async def test_a_torn_last_line_is_ignored_and_cut_off_before_appending(
    path: Path, torn: bytes
) -> None:
    events: list[Event] = [RunStarted(1), TaskQueued(A1.task)]
    put(path, lines(events) + torn)
    assert written(path) == events
    async with opened(path) as log:
        await log.append([RunResumed("crash")])
    assert written(path) == [*events, RunResumed("crash")]


async def test_damage_elsewhere_is_an_error_that_names_the_line(path: Path) -> None:
    good = lines([RunStarted(1), TaskQueued(A1.task)])
    put(path, good + b"garbage\n" + good)
    with pytest.raises(CorruptionError, match="line 3 is not a line of JSON"):
        replay(path, RUN)
    with pytest.raises(CorruptionError, match="line 3"):
        async with opened(path):
            pass
    assert stored(path) == good + b"garbage\n" + good


def test_a_number_that_repeats_is_damage(path: Path) -> None:
    put(path, lines([RunStarted(1)]) * 2)
    with pytest.raises(CorruptionError, match="line 2 has number 0 where 1 is due"):
        replay(path, RUN)


async def test_a_log_that_is_a_link_is_refused(path: Path, tmp_path: Path) -> None:
    link(path, tmp_path / "elsewhere")
    with pytest.raises(CorruptionError, match="not a regular file"):
        async with opened(path):
            pass


async def test_a_log_in_a_folder_that_is_gone_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(LogWriteError, match="No such file"):
        async with opened(tmp_path / "gone" / "events.jsonl"):
            pass


async def test_a_file_that_cannot_be_cut_is_closed_again(path: Path, disarmed: None) -> None:
    put(path, b"torn")
    before = open_files()
    faults.install("error:eventlog.open.cut:1:EIO")
    with pytest.raises(LogWriteError, match="Input/output error"):
        async with opened(path):
            pass
    assert open_files() == before


@pytest.mark.parametrize("point", ["started", "written"])
async def test_a_full_disk_fails_the_append_and_everything_after_it(
    path: Path, disarmed: None, point: str
) -> None:
    with pytest.raises(LogWriteError, match="No space left"):  # noqa: PT012  (leaving says it too)
        async with opened(path) as log:
            await log.append([RunStarted(1)])
            faults.install(f"error:eventlog.append.{point}:1:ENOSPC")
            with pytest.raises(LogWriteError, match="No space left"):
                await log.append([TaskQueued(A1.task)])
            assert written(path) == [RunStarted(1)]
            with pytest.raises(LogWriteError, match="No space left"):
                await log.append([TaskQueued(A1.task)])
    assert written(path) == [RunStarted(1)]


async def test_a_full_disk_ends_the_run_visibly(path: Path, disarmed: None) -> None:
    faults.install("error:eventlog.append.written:2:ENOSPC")
    graph, clock = graph_of({"a": (), "b": ("a",)}), LoopClock()
    providers = dict.fromkeys(graph.order, "p")
    with pytest.raises(ExternalError, match="No space left"):
        async with open_event_log(path, run=RUN, clock=clock, mode=Mode.LEAN) as log:
            await run_graph(
                Terms(graph, providers, Limits(), clock.now_ms() + 60_000),
                Means(ScriptedExecutor(), log, Limiter(), clock),
                Inbox(),
            )
    assert written(path)[-1] == AttemptStarted(A1)


async def test_traces_that_cannot_be_written_fail_the_next_append(
    path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int, data: object) -> int:
        raise OSError(28, "No space left on device")

    tried = trio.Event()

    def stuck(fd: int, size: int) -> None:
        trio.from_thread.run_sync(tried.set)
        raise OSError(5, "Input/output error")

    with pytest.raises(LogWriteError):  # noqa: PT012  (leaving says it too)
        async with opened(path) as log:
            with monkeypatch.context() as patch:
                patch.setattr("engine.eventlog.os.write", full)
                patch.setattr("engine.eventlog.os.ftruncate", stuck)
                log.note(TALK[0])
                await tried.wait()
            await log.append([RunStarted(1)])


async def test_an_error_in_the_block_comes_out_as_it_is(path: Path) -> None:
    with pytest.raises(KeyError, match="mine"):
        async with opened(path):
            raise KeyError("mine")


async def test_cancelling_an_append_that_writes_lets_it_end(path: Path) -> None:
    with trio.CancelScope() as scope:
        async with opened(path) as log:
            scope.cancel()
            with trio.CancelScope(shield=True):
                await log.append([RunStarted(1)])
            await log.append([TaskQueued(A1.task)])
    assert scope.cancelled_caught
    assert written(path) == [RunStarted(1)]


async def test_a_consumer_sees_what_was_written_in_order(path: Path) -> None:
    seen: list[Logged] = []
    async with opened(path) as log:
        log.subscribe(seen.append)
        log.note(TALK[0])
        assert seen == []
        await log.append([RunStarted(1)])
        log.unsubscribe(seen.append)
        log.unsubscribe(seen.append)
        await log.append([RunSettled(Status.SUCCEEDED)])
    assert seen == replay(path, RUN)[:2]


async def test_a_consumer_that_throws_is_dropped_and_hurts_nobody(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[Logged] = []
    seen: list[Logged] = []

    def throws(logged: Logged) -> None:
        calls.append(logged)
        raise RuntimeError("a viewer's fault")

    async with opened(path) as log:
        log.subscribe(throws)
        log.subscribe(seen.append)
        await log.append([RunStarted(1), TaskQueued(A1.task)])
        await log.append([RunResumed("x")])
    assert len(calls) == 1
    assert seen == replay(path, RUN)
    assert "a viewer's fault" in caplog.text


@pytest.mark.parametrize("mode", list(Mode))
async def test_replaying_a_log_gives_the_live_view(path: Path, mode: Mode) -> None:
    async def works(attempt: AttemptId, reporter: Reporter) -> AttemptOutcome:
        for turn in range(1, 6):
            reporter.note(TurnStarted(attempt, turn))
            reporter.note(TextDelta(attempt, "so"))
            reporter.note(UsageReported(attempt, turn, 0, turn * 10, turn, turn / 10))
            clock.advance(400)
            await trio.lowlevel.checkpoint()
        return SUCCESS

    live, clock = RunView(), FakeClock()
    async with open_event_log(path, run=RUN, clock=clock, mode=mode) as log:
        log.subscribe(lambda logged: live.apply(*logged))
        graph = graph_of({"a": (), "b": (), "c": ("a",)})
        providers = dict.fromkeys(graph.order, "p")
        await run_graph(
            Terms(graph, providers, Limits(), clock.now_ms() + 600_000),
            Means(ScriptedExecutor(default=works), log, Limiter(), clock),
            Inbox(),
        )
    read = RunView()
    for logged in replay(path, RUN):
        read.apply(*logged)
    assert read == live
    assert read.usage.input_tokens == 150
    assert read.usage.cost_usd == pytest.approx(1.5)


async def test_a_lean_log_of_eight_agents_has_three_events_each_and_two_for_the_run(
    path: Path,
) -> None:
    clock = LoopClock()
    async with open_event_log(path, run=RUN, clock=clock, mode=Mode.LEAN) as log:
        graph = independent(8)
        providers = dict.fromkeys(graph.order, "p")
        await run_graph(
            Terms(graph, providers, Limits(), clock.now_ms() + 600_000),
            Means(ScriptedExecutor(), log, Limiter(), clock),
            Inbox(),
        )
    assert len(replay(path, RUN)) == 2 + 3 * 8


async def test_log_that_was_replaced_takes_nothing_any_more(path: Path) -> None:
    copy = path.with_name("copy")
    with pytest.raises(LogWriteError, match="another file stands in its place"):  # noqa: PT012  (leaving says it too)
        async with opened(path) as log:
            await log.append([RunStarted(1)])
            await trio.to_thread.run_sync(lambda: copy.write_bytes(path.read_bytes()))
            await trio.to_thread.run_sync(copy.rename, path)
            await log.append([TaskQueued(TaskId("a"))])
    assert [logged.event for logged in replay(path, RUN)] == [RunStarted(1)]


async def test_a_log_that_others_wrote_to_is_not_intact(path: Path) -> None:
    whole = encode_event(RunStarted(1), seq=0, run=RUN, at_ms=START)
    put(path, whole)
    async with opened(path) as log:
        await log.append((TaskQueued(A1.task),))
        assert await log.is_intact()
        held = stored(path)
        put(path, held.replace(b"0", b"1", 1))
        assert not await log.is_intact()
        put(path, held + whole)
        assert not await log.is_intact()
        put(path, held[:-1])
        assert not await log.is_intact()
        put(path, held)
        assert await log.is_intact()
    assert await log.is_intact()
    os.truncate(path, 0)
    assert not await log.is_intact()
    await trio.Path(path).unlink()
    assert not await log.is_intact()


async def test_what_a_log_held_is_there_after_it_grew(path: Path) -> None:
    async with opened(path) as log:
        await log.append((RunStarted(1), TaskQueued(A1.task)))
        held = log._file.held()
        assert held is not None
        await log.append((TaskQueued(B1.task),))
        assert held.is_there()
        assert await log.is_intact()
