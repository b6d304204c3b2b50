"""The agents that a host runs: what is there, what is left of a start that fails, and ends."""

import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from agents.herdsman.errors import Category, HerdError
from agents.herdsman.identity import Handle, Identity
from agents.herdsman.launches import stamp
from agents.herdsman.premises import Premises
from agents.herdsman.presence import Presence, observe
from agents.herdsman.record import ProcessStamp, Proof, State
from agents.herdsman.runtime import Conversation, Launch, Lifecycle, Started
from engine.core.errors import ExternalError
from engine.core.spec import Backend
from engine.system.identity import identify
from engine.system.strays import MARK_VARIABLE
from pinata.work.herd_runtime import STOP_S, HerdRuntime
from pinata.work.herd_strangers import NoRuntime
from tests.support.clock import FakeClock
from tests.support.guard import blocking_allowed
from tests.support.herd_led import PlayedWay, launch_of
from tests.support.herd_records import LEAD, session, state_of
from tests.support.herd_stage import PlayedAttendant


@pytest.fixture
def way() -> PlayedWay:
    return PlayedWay()


@pytest.fixture
def premises(tmp_path: Path) -> Premises:
    return Premises(tmp_path / "pinata", FakeClock(), "a test")


@pytest.fixture
async def runtime(premises: Premises, way: PlayedWay) -> AsyncIterator[HerdRuntime]:
    async with trio.open_nursery() as nursery:
        yield HerdRuntime(premises, way, own(), nursery)
        nursery.cancel_scope.cancel()


def own() -> ProcessStamp:
    found = identify(os.getpid())
    assert found is not None
    return stamp(found)


def another_now() -> ProcessStamp:
    """Return what a process is called that once had the number of this one."""
    mine = own()
    return ProcessStamp(mine.pid, mine.start_ticks - 1, mine.boot_id)


async def start(runtime: HerdRuntime, launch: Launch) -> tuple[Identity, Started]:
    """Start an agent and return who it is."""
    started = await (await runtime.prepare(launch)).start()
    of = launch.birth.at(started.handle)
    return Identity(of, started.session, str(started.session_file), launch.birth.cwd), started


async def presence(runtime: HerdRuntime | NoRuntime, state: State) -> Presence:
    return observe(state.identity, await runtime.inventory([state])).presence


async def present(runtime: HerdRuntime, identity: Identity) -> Presence:
    return observe(identity, await runtime.inventory([])).presence


def left(premises: Premises) -> list[Path]:
    return list(premises.launches.iterdir())


def elsewhere(label: str, host: ProcessStamp, child: ProcessStamp | None = None) -> State:
    """Return the state of an agent that another host has started."""
    proof = Proof("in-process", host) if child is None else Proof("process", host, child)
    return replace(state_of(label), proof=proof)


@contextmanager
def sleeping(mark: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """Have a program inside the block that carries a mark and does nothing."""
    env = {**os.environ, MARK_VARIABLE: mark}
    with blocking_allowed(), subprocess.Popen(["sleep", "60"], env=env) as child:
        yield child
        child.kill()


async def test_agent_that_is_up_is_live_and_its_record_tells_where(
    runtime: HerdRuntime, way: PlayedWay, premises: Premises
) -> None:
    attendant = PlayedAttendant()
    identity, started = await start(runtime, launch_of("scout", attendant))
    assert await present(runtime, identity) is Presence.LIVE
    assert started.handle.startswith("in-process-")
    assert started.proof == Proof("in-process", own(), None, way.marks[0])
    assert attendant.served.is_set()
    conversation: Conversation | None = runtime.conversation(identity)
    assert conversation is way.led[0]
    assert await runtime.capture(identity) == ("a line",)
    assert len(left(premises)) == 1


async def test_agent_whose_place_has_another_session_is_unknown(
    runtime: HerdRuntime, way: PlayedWay
) -> None:
    identity, _ = await start(runtime, launch_of("scout"))
    way.led[0].session = session("other")
    assert await present(runtime, identity) is Presence.UNKNOWN


async def test_generation_whose_session_is_led_in_another_place_is_unknown(
    runtime: HerdRuntime,
) -> None:
    identity, _ = await start(runtime, launch_of("scout"))
    before = replace(elsewhere("old", another_now()), session=identity.session)
    assert await presence(runtime, before) is Presence.UNKNOWN


async def test_generation_whose_process_has_lost_its_number_to_another_one_is_lost(
    runtime: HerdRuntime,
) -> None:
    state = elsewhere("scout", another_now(), another_now())
    assert await presence(runtime, state) is Presence.LOST
    assert await presence(NoRuntime(), state) is Presence.LOST


async def test_generation_of_another_host_is_unknown_while_that_lives(
    runtime: HerdRuntime,
) -> None:
    with sleeping() as other:
        found = identify(other.pid)
        assert found is not None
        for state in (
            elsewhere("scout", stamp(found)),
            elsewhere("scout", another_now(), stamp(found)),
        ):
            assert await presence(runtime, state) is Presence.UNKNOWN
            assert await presence(NoRuntime(), state) is Presence.UNKNOWN
    assert await presence(runtime, elsewhere("scout", stamp(found))) is Presence.LOST


async def test_generation_of_this_host_that_it_does_not_run_is_lost_and_for_others_unknown(
    runtime: HerdRuntime,
) -> None:
    state = elsewhere("scout", own())
    assert await presence(runtime, state) is Presence.LOST
    assert await presence(NoRuntime(), state) is Presence.UNKNOWN


async def test_agent_that_does_not_answer_is_unknown_and_answers_later(
    runtime: HerdRuntime, way: PlayedWay
) -> None:
    way.backend, way.child = Backend.PROCESS, own()
    identity, started = await start(runtime, launch_of("scout"))
    assert started.proof.child == own()
    way.led[0].answers = False
    assert await present(runtime, identity) is Presence.UNKNOWN
    way.led[0].answers = True
    assert await present(runtime, identity) is Presence.LIVE
    assert way.led[0].asked == 2


async def test_what_an_agent_does_is_observed(runtime: HerdRuntime, way: PlayedWay) -> None:
    await start(runtime, launch_of("scout"))
    for seen in Lifecycle:
        way.led[0].lifecycle = seen
        (agent,) = (await runtime.inventory([])).agents
        assert agent.lifecycle is seen


async def test_agent_that_is_about_to_come_up_has_a_place_and_is_not_there(
    runtime: HerdRuntime, way: PlayedWay, nursery: trio.Nursery
) -> None:
    way.gate = trio.Event()
    nursery.start_soon(start, runtime, launch_of("scout"))
    await way.opening.wait()
    inventory = await runtime.inventory([])
    assert inventory.agents == ()
    assert [slot.session for slot in inventory.slots] == [None]
    assert len(runtime.generations) == 1
    way.gate.set()


async def test_start_that_fails_says_why_and_leaves_nothing(
    runtime: HerdRuntime, way: PlayedWay, premises: Premises
) -> None:
    way.fault = ExternalError("Pi ended with status 1: bad flag")
    with pytest.raises(HerdError) as caught:
        await start(runtime, launch_of("scout"))
    trouble = caught.value.trouble
    assert trouble.category is Category.PANE_NOT_READY
    assert trouble.message == "the agent scout did not come up: Pi ended with status 1: bad flag"
    assert trouble.rollback_occurred
    assert trouble.ids == {"agent": "scout"}
    assert way.open_now == 0
    assert not runtime.generations
    assert left(premises) == []


async def test_bug_in_a_start_is_told_as_one_and_leaves_nothing(
    runtime: HerdRuntime, way: PlayedWay, premises: Premises
) -> None:
    way.fault = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        await start(runtime, launch_of("scout"))
    assert not runtime.generations
    assert left(premises) == []
    way.fault = None
    identity, _ = await start(runtime, launch_of("scout"))
    assert await present(runtime, identity) is Presence.LIVE


async def test_start_that_is_cancelled_leaves_nothing(
    runtime: HerdRuntime, way: PlayedWay, premises: Premises
) -> None:
    way.gate = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(start, runtime, launch_of("scout"))
        await way.opening.wait()
        nursery.cancel_scope.cancel()
    assert way.open_now == 0
    assert not runtime.generations
    assert left(premises) == []


async def test_crash_of_an_agent_ends_it_alone_and_is_told_its_owner(
    runtime: HerdRuntime, way: PlayedWay, premises: Premises, caplog: pytest.LogCaptureFixture
) -> None:
    class Breaking(PlayedAttendant):
        async def serve(self, conversation: Conversation, started: Started) -> None:
            self.served.set()
            await breaks.wait()
            raise ZeroDivisionError

    breaks = trio.Event()
    broken, _ = await start(runtime, launch_of("broken", Breaking()))
    whole, _ = await start(runtime, launch_of("whole"))
    heard = premises.signals.listen(LEAD)
    breaks.set()
    await heard.wait()
    assert "the agent broken broke off" in caplog.text
    assert await present(runtime, broken) is Presence.LOST
    assert await present(runtime, whole) is Presence.LIVE
    assert way.open_now == 1
    assert len(left(premises)) == 1


async def test_agent_that_ends_by_itself_is_gone_and_its_owner_hears_of_it(
    runtime: HerdRuntime, way: PlayedWay, premises: Premises, caplog: pytest.LogCaptureFixture
) -> None:
    identity, _ = await start(runtime, launch_of("scout"))
    heard = premises.signals.listen(LEAD)
    way.led[0].ended.set()
    await heard.wait()
    assert "the agent scout is gone: it was killed" in caplog.text
    assert await present(runtime, identity) is Presence.LOST
    with pytest.raises(HerdError, match="is not run by this session's host"):
        await runtime.stop(identity)


async def test_agent_that_has_nobody_to_work_for_is_ended(
    runtime: HerdRuntime, premises: Premises
) -> None:
    class Served(PlayedAttendant):
        async def serve(self, conversation: Conversation, started: Started) -> None:
            await trio.lowlevel.checkpoint()

    identity, _ = await start(runtime, launch_of("scout", Served()))
    with trio.fail_after(10):
        while runtime.generations:
            await trio.lowlevel.checkpoint()
    assert await present(runtime, identity) is Presence.LOST
    assert left(premises) == []


async def test_stop_returns_when_nothing_of_the_agent_is_left(
    runtime: HerdRuntime, way: PlayedWay, premises: Premises
) -> None:
    identity, _ = await start(runtime, launch_of("scout"))
    other, _ = await start(runtime, launch_of("other"))
    await runtime.stop(identity)
    assert way.open_now == 1
    assert len(left(premises)) == 1
    assert await present(runtime, identity) is Presence.LOST
    assert await present(runtime, other) is Presence.LIVE


async def test_stop_ends_nobody_who_is_not_exactly_meant(runtime: HerdRuntime) -> None:
    identity, _ = await start(runtime, launch_of("scout"))
    elsewhere = replace(identity.of, handle=Handle("in-process-000000000000"))
    for other in (
        replace(identity, of=elsewhere),
        replace(identity, session=session("other")),
        replace(identity, cwd="/elsewhere"),
    ):
        with pytest.raises(HerdError) as caught:
            await runtime.stop(other)
        assert caught.value.trouble.category is Category.TARGET_NOT_FOUND
        with pytest.raises(HerdError):
            await runtime.capture(other)
        with pytest.raises(HerdError):
            await runtime.processes(other)
        assert runtime.conversation(other) is None
    assert await present(runtime, identity) is Presence.LIVE


async def test_agent_that_is_still_there_after_the_time_for_its_end_is_said_to_be(
    autojump_clock: trio.testing.MockClock, runtime: HerdRuntime, way: PlayedWay
) -> None:
    way.keeps = trio.Event()
    identity, _ = await start(runtime, launch_of("scout"))
    before = trio.current_time()
    with pytest.raises(HerdError, match="is still there after 5 s"):
        await runtime.stop(identity)
    assert trio.current_time() - before == STOP_S
    assert await present(runtime, identity) is not Presence.LOST
    way.keeps.set()


async def test_programs_of_an_agent_are_those_that_carry_its_mark(
    runtime: HerdRuntime, way: PlayedWay
) -> None:
    identity, _ = await start(runtime, launch_of("scout"))
    await start(runtime, launch_of("other"))
    assert await runtime.processes(identity) == []
    with sleeping(f"{way.marks[0]}/agent") as child:
        (shown,) = await runtime.processes(identity)
    assert (shown.pid, shown.name, shown.command) == (child.pid, "sleep", "sleep 60")
