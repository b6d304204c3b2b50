"""How an agent's own half takes requests."""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from agents.herdsman.errors import HerdError
from agents.herdsman.identity import GenerationId, Label
from agents.herdsman.marker import MARKER
from agents.herdsman.record import Binding, RejectionCode, RequestKind
from agents.herdsman.references import binding_details
from agents.herdsman.runtime import BINDING, REQUEST, Lifecycle, request_message
from agents.herdsman.settlement import Undelivered
from engine.core.errors import ExternalError
from tests.support.deaths import failing_at, failing_reads
from tests.support.herd_members import open_pen
from tests.support.herd_records import uid
from tests.support.herd_talk import Call, Turn

ASKS = Turn("a question", calls=(Call("ask_owner", {"question": "a or b?"}),))
WORKS = Turn("working", calls=(Call("bash"),), takes_s=5)
DONE = Turn("all done")


async def test_steered_agent_keeps_its_assignment_and_gives_one_result(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        pen.script.play(WORKS, DONE)
        await pen.start()
        task = await pen.give()
        said = await pen.tell(pen.request("steer", RequestKind.STEER, "look behind you"))
        state = await pen.state()
        assert (said.accepted, state.active) == (True, task.request)
        assert state.injection is None
        state = await pen.wait_completed()
        assert state.completed == task.request
        assert pen.talk.heard(REQUEST) == ["look around", "look behind you"]
        assert pen.results() == [f"result-{task.request}.json"]
        assert await pen.result() == "all done"
        assert pen.requests() == []


async def test_model_that_is_interrupted_sees_only_the_replacement(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        pen.script.play(Turn("half", hangs=True), DONE)
        await pen.start()
        await pen.give()
        assert (await pen.tell(pen.request("steer", RequestKind.STEER, "faster"))).accepted
        interrupt = pen.request("interrupt", RequestKind.INTERRUPT, "do it by hand")
        assert (await pen.tell(interrupt)).accepted
        await pen.wait_completed()
        task, replacement = pen.talk.heard(REQUEST)
        assert task == "look around"
        assert replacement.endswith("do it by hand")
        assert "aborted" in replacement
        assert await pen.result() == "all done"
        assert len(pen.results()) == 1


async def test_control_is_refused_until_the_replacement_has_begun(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        pen.script.play(Turn("half", hangs=True), WORKS, DONE)
        await pen.start()
        await pen.give()
        pen.talk.abort_takes_s = 20
        assert (await pen.tell(pen.request("i", RequestKind.INTERRUPT, "by hand"))).accepted
        for kind in (RequestKind.STEER, RequestKind.INTERRUPT):
            said = await pen.tell(pen.request(f"early {kind}", kind, "and now?"))
            assert (said.accepted, said.code) == (False, RejectionCode.BUSY)
        await pen.wait_heard(2)
        await pen.wait_state(lambda state: state.injection is None)
        assert (await pen.tell(pen.request("late", RequestKind.STEER, "good"))).accepted
        await pen.wait_completed()
        assert pen.talk.heard(REQUEST)[2:] == ["good"]


async def test_request_that_is_delivered_twice_is_read_once(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        pen.script.play(Turn("slow", takes_s=30))
        await pen.start()
        task = pen.request("task", RequestKind.TASK, "look around")
        await pen.give()
        await pen.wait_heard(1)
        await pen.leave(task)
        await pen.wait_gone(task)
        steer = pen.request("steer", RequestKind.STEER, "faster")
        assert (await pen.tell(steer)).accepted
        await pen.leave(steer)
        pen.script.play(DONE)
        await pen.wait_completed()
        await pen.leave(task)
        await pen.wait_gone(task)
        assert pen.talk.heard(REQUEST) == ["look around", "faster"]
        assert pen.requests() == []
        assert await pen.faults() == []


async def test_request_whose_text_the_history_holds_is_removed_without_an_answer(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        pen.script.play(Turn("slow", takes_s=30), DONE)
        await pen.start()
        await pen.give()
        old = pen.request("old", RequestKind.STEER, "long ago")
        await pen.talk.say(request_message(old.request, old.kind, old.text), waits=True)
        before = (await pen.state()).acknowledgement
        await pen.leave(old)
        await pen.wait_gone(old)
        assert (await pen.state()).acknowledgement == before
        assert pen.talk.heard(REQUEST) == ["look around", "long ago"]


async def test_answer_that_cannot_be_written_is_given_once_when_it_can(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        pen.script.play(DONE)
        await pen.start()
        await pen.wait_ready()
        task = pen.request("task", RequestKind.TASK, "look around")
        await pen.leave(task)
        with failing_at("herd.state.started", times=3):
            began = trio.current_time()
            await pen.wait_heard(1)
            assert trio.current_time() - began >= 2 * 0.25
        await pen.wait_completed()
        assert pen.talk.heard(REQUEST) == ["look around"]
        assert len(await pen.faults()) == 1


@pytest.mark.parametrize("end", ["written", "renamed"])
async def test_answer_that_may_be_written_is_followed_by_its_text_all_the_same(
    herd_clock: MockClock, tmp_path: Path, end: str
) -> None:
    async with open_pen(tmp_path) as pen:
        pen.script.play(DONE)
        await pen.start()
        await pen.wait_ready()
        await pen.leave(pen.request("task", RequestKind.TASK, "look around"))
        with failing_at(f"herd.state.{end}"):
            await pen.wait_heard(1)
        await pen.wait_completed()
        assert pen.talk.heard(REQUEST) == ["look around"]


async def test_second_answer_to_a_question_is_refused_and_not_read(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        pen.script.play(ASKS, Turn("b it is", takes_s=10))
        await pen.start()
        await pen.give()
        ask = await pen.wait_asking()
        assert (await pen.tell(pen.request("first", RequestKind.REPLY, "b", ask=ask))).accepted
        said = await pen.tell(pen.request("second", RequestKind.REPLY, "a", ask=ask))
        assert said.code is RejectionCode.IDENTITY
        await pen.wait_completed()
        task, reply = pen.talk.heard(REQUEST)
        assert task == "look around"
        assert reply.endswith("b")
        assert await pen.result() == "b it is"


async def test_agent_that_waits_for_its_own_agents_is_steered_into_a_new_turn(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path, is_delegating=True) as pen:
        pen.undelivered = Undelivered(others=(Label("child"),))
        pen.script.play(Turn("waiting", takes_s=5), Turn("steered"))
        await pen.start()
        await pen.give()
        await pen.talk.wait_lifecycle(Lifecycle.WORKING)
        await pen.talk.wait_lifecycle(Lifecycle.IDLE)
        refused = await pen.tell(pen.request("i", RequestKind.INTERRUPT, "stop"))
        assert refused.code is RejectionCode.IDLE
        assert (await pen.tell(pen.request("steer", RequestKind.STEER, "go on"))).accepted
        await pen.wait_heard(2)
        assert pen.results() == []


async def test_idle_agent_is_neither_steered_nor_interrupted(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        await pen.start()
        await pen.wait_ready()
        for kind in (RequestKind.STEER, RequestKind.INTERRUPT):
            said = await pen.tell(pen.request(f"{kind}", kind, "go on"))
            assert said.code is RejectionCode.IDLE
        assert pen.talk.heard(REQUEST) == []


async def test_request_for_an_earlier_agent_of_the_label_is_refused(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        pen.script.play(Turn("working", takes_s=20))
        await pen.start()
        await pen.give()
        steer = pen.request("steer", RequestKind.STEER, "turn")
        stale = replace(steer, of=replace(steer.of, generation=GenerationId(uid("earlier"))))
        said = await pen.tell(stale)
        assert said.code is RejectionCode.IDENTITY
        assert pen.requests() == []
        await pen.wait_completed()
        assert pen.talk.heard(REQUEST) == ["look around"]


async def test_text_that_is_a_marker_is_swallowed(herd_clock: MockClock, tmp_path: Path) -> None:
    async with open_pen(tmp_path) as pen:
        pen.script.play(Turn("working", takes_s=20))
        await pen.start()
        await pen.give()
        before = await pen.wait_state(lambda state: state.injection is None)
        text = f"{MARKER}{uid('any')} and more"
        said = await pen.tell(pen.request("steer", RequestKind.STEER, text))
        assert said.code is RejectionCode.INVALID
        after = await pen.state()
        unsaid = replace(
            after, acknowledgement=before.acknowledgement, updated_ms=before.updated_ms
        )
        assert replace(unsaid, last_activity_ms=before.last_activity_ms) == before
        await pen.wait_completed()
        assert pen.talk.heard(REQUEST) == ["look around"]


async def test_unreadable_request_is_refused_and_removed(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        pen.script.play(DONE)
        await pen.start()
        await pen.wait_ready()
        broken = pen.request("broken", RequestKind.TASK, "x")
        (pen.mailbox.folder / f"request-{broken.request}.json").write_text("{")
        pen.premises.signals.ring(str(pen.mailbox.folder))
        await pen.wait_gone(broken)
        said = await pen.said()
        assert (said.request, said.code) == (broken.request, RejectionCode.INVALID)
        assert (await pen.give()).accepted


async def test_second_task_is_refused_whatever_became_of_the_first(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        pen.script.play(Turn("done", takes_s=20))
        await pen.start()
        await pen.give()
        early = await pen.tell(pen.request("second", RequestKind.TASK, "another"))
        await pen.wait_completed()
        late = await pen.tell(pen.request("third", RequestKind.TASK, "another"))
        assert (early.code, late.code) == (RejectionCode.BUSY, RejectionCode.BUSY)
        assert pen.talk.heard(REQUEST) == ["look around"]


async def test_activity_is_written_every_few_seconds_and_no_more_after_the_end(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        pen.script.play(*(Turn("on", calls=(Call("bash"),), takes_s=2) for _ in range(10)), DONE)
        await pen.start()
        await pen.give()
        seen: set[int | None] = set()
        while (state := await pen.state()).completed is None:
            seen.add(state.last_activity_ms)
            await pen.pass_time(1)
        times = sorted(time for time in seen if time is not None)
        assert 4 <= len(times) <= 6
        assert all(b - a >= 2_000 for a, b in itertools.pairwise(times))
        assert (await pen.state()).last_activity_ms is None
        await pen.pass_time(10)
        pen.agent.attendant.active()
        await pen.pass_time(1)
        assert (await pen.state()).last_activity_ms is None


async def test_mailbox_that_is_removed_stays_removed(herd_clock: MockClock, tmp_path: Path) -> None:
    async with open_pen(tmp_path) as pen:
        pen.script.play(Turn("done", takes_s=20))
        await pen.start()
        await pen.give()
        await pen.remove()
        await pen.pass_time(60)
        assert not pen.mailbox.folder.exists()
        # It has nobody to work for any more.
        assert pen.agent.is_gone.is_set()


async def test_mailbox_that_is_another_generations_by_now_is_left_alone(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        pen.script.play(Turn("done", takes_s=20))
        await pen.start()
        await pen.give()
        state = await pen.wait_state(lambda state: state.injection is None)
        of = replace(state.of, generation=GenerationId(uid("another")))
        async with pen.mailbox.hold():
            await pen.mailbox.write_state(replace(state, of=of))
        before = pen.files()
        await pen.pass_time(60)
        assert pen.files() == before
        # It has nobody to work for any more.
        assert pen.agent.is_gone.is_set()


async def test_answer_follows_a_steer_that_was_not_read_when_the_agent_rested(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        pen.script.play(Turn("first", takes_s=10), Turn("second", takes_s=10))
        await pen.start()
        await pen.give()
        pen.talk.rests_between = True
        assert (await pen.tell(pen.request("steer", RequestKind.STEER, "more"))).accepted
        await pen.wait_completed()
        assert await pen.result() == "second"


async def test_what_references_stand_for_comes_into_the_agents_session(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    binding = Binding("result:helper#1", f"result:{uid('found')}")
    async with open_pen(tmp_path) as pen:
        pen.script.play(Turn("working", takes_s=20))
        await pen.start()
        await pen.give()
        for name in ("first", "second"):
            steer = pen.request(name, RequestKind.STEER, "read it", bindings=(binding,))
            assert (await pen.tell(steer)).accepted
        entries = await pen.talk.entries()
        assert [e.details for e in entries if e.kind == BINDING] == [binding_details(binding)]


async def test_references_that_stand_for_something_else_in_its_session_are_refused(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    known = Binding("result:helper#1", f"result:{uid('found')}")
    other = Binding("result:helper#1", f"result:{uid('another')}")
    async with open_pen(tmp_path) as pen:
        pen.script.play(Turn("working", takes_s=20))
        await pen.start()
        await pen.talk.append(BINDING, binding_details(known))
        await pen.give()
        steer = pen.request("steer", RequestKind.STEER, "read it", bindings=(other,))
        assert (await pen.tell(steer)).code is RejectionCode.AMBIGUOUS
        await pen.wait_completed()
        assert pen.talk.heard(REQUEST) == ["look around"]


async def test_references_that_cannot_be_saved_are_refused(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    binding = Binding("result:helper#1", f"result:{uid('found')}")
    async with open_pen(tmp_path) as pen:
        pen.script.play(Turn("working", takes_s=20))
        await pen.start()
        await pen.give()
        with failing_at("played.custom.started", times=9, error=ExternalError("no room")):
            steer = pen.request("steer", RequestKind.STEER, "read it", bindings=(binding,))
            await pen.leave(steer)
            await pen.wait_gone(steer)
        assert (await pen.said()).code is RejectionCode.DELIVERY
        broken = Binding("result:helper#2", "result:x")
        with pytest.raises(HerdError):
            await pen.leave(pen.request("odd", RequestKind.STEER, "x", bindings=(broken,)))


@pytest.mark.parametrize("record", ["request", "ask"])
async def test_record_that_the_machine_cannot_read_is_tried_again(
    herd_clock: MockClock, tmp_path: Path, record: str
) -> None:
    async with open_pen(tmp_path) as pen:
        pen.script.play(ASKS, DONE)
        await pen.start()
        await pen.give()
        ask = await pen.wait_asking()
        with failing_reads(f"{record}-" if record == "request" else "ask.json"):
            reply = pen.request("reply", RequestKind.REPLY, "b", ask=ask)
            await pen.leave(reply)
            await pen.pass_time(5)
            assert len(pen.requests()) == 1
            assert (await pen.state()).pending_ask == ask
        await pen.wait_completed()
        assert len(await pen.faults()) == 1


@pytest.mark.parametrize("step", ["renamed", "durable"])
async def test_steer_whose_acceptance_is_written_and_not_flushed_is_read(
    herd_clock: MockClock, tmp_path: Path, step: str
) -> None:
    async with open_pen(tmp_path) as pen:
        turns = Turn("half", calls=(Call("bash"),), takes_s=5), Turn("more", takes_s=5), Turn("end")
        pen.script.play(*turns)
        await pen.start()
        await pen.give()
        await pen.wait_state(lambda state: state.injection is None)
        with failing_at(f"herd.state.{step}"):
            assert (await pen.tell(pen.request("s", RequestKind.STEER, "turn left"))).accepted
        await pen.wait_completed()
        assert pen.talk.heard(REQUEST) == ["look around", "turn left"]


async def test_steer_that_cannot_be_queued_is_lost_and_reported(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        pen.script.play(Turn("All is well.", takes_s=20))
        await pen.start()
        await pen.give()
        await pen.wait_state(lambda state: state.injection is None)
        pen.talk.deaf = "the agent takes nothing any more"
        assert (await pen.tell(pen.request("steer", RequestKind.STEER, "faster"))).accepted
        pen.talk.deaf = None
        await pen.wait_completed()
        assert pen.talk.heard(REQUEST) == ["look around"]
        assert pen.requests() == []
        assert ["lost" in fault for fault in await pen.faults()] == [True]


async def test_task_that_cannot_be_put_in_at_once_is_put_in_later(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        pen.script.play(DONE)
        await pen.start()
        await pen.wait_ready()
        pen.talk.deaf = "the agent takes nothing now"
        assert (await pen.give()).accepted
        await pen.pass_time(10)
        assert (await pen.state()).injection is not None
        assert len(await pen.faults()) == 1
        pen.talk.deaf = None
        await pen.wait_completed()
        assert pen.talk.heard(REQUEST) == ["look around"]


async def test_trouble_that_cannot_be_saved_is_logged(
    herd_clock: MockClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_pen(tmp_path) as pen:
        pen.script.play(DONE)
        await pen.start()
        await pen.wait_ready()
        pen.talk.fault = "the session is gone"
        await pen.leave(pen.request("task", RequestKind.TASK, "look around"))
        await pen.pass_time(5)
        assert caplog.text.count("the session is gone") == 2
        pen.talk.fault = None
        await pen.wait_completed()
