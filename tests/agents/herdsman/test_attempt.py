from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from agents.herdsman.attempt import READY_S, START_S, TASK_PATIENCE_S
from agents.herdsman.birth import Birth
from agents.herdsman.closing import close
from agents.herdsman.controller import Controller
from agents.herdsman.delegate import delegate
from agents.herdsman.errors import Category, HerdError, Trouble, ambiguous, broken
from agents.herdsman.identity import GenerationId, Handle, Identity
from agents.herdsman.look import look
from agents.herdsman.record import OnePending, RejectionCode, State
from agents.herdsman.runtime import Inventory, LiveAgent
from agents.herdsman.traces import LOCK_S
from engine.core.errors import ExternalError
from engine.system import faults
from tests.support.deaths import Died, dying_at, passed_points
from tests.support.herd_desks import Desk, Puppet, open_desk
from tests.support.herd_records import session


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with open_desk(tmp_path) as desk:
        yield desk


def puppets(desk: Desk, **fields: Any) -> list[Puppet]:
    """Have agents do as a test says; return those that are started."""
    made: list[Puppet] = []

    def attendant(birth: Birth) -> Puppet:
        made.append(Puppet(desk=desk, birth=birth, **fields))
        return made[-1]

    desk.attendant = attendant
    return made


async def call(controller: Controller, task: str = "Look.") -> dict[str, Any]:
    return await delegate(controller, definition="scout", task=task, label="mine", files=())


async def failure(desk: Desk, task: str = "Look.") -> Trouble:
    with pytest.raises(HerdError) as caught:
        await call(desk.controller(), task)
    trouble = caught.value.trouble
    assert trouble.ids["agent"] == "mine"
    assert trouble.ids["request_id"]
    return trouble


async def check_usable(desk: Desk) -> None:
    """Check that nothing is left, and that the label can be used."""
    await desk.check_untouched()
    desk.attendant = None
    await call(desk.controller())


async def test_an_agent_that_ends_before_it_is_ready_frees_its_label(
    herd_clock: MockClock, desk: Desk
) -> None:
    puppets(desk, dies=True)
    started = trio.current_time()
    trouble = await failure(desk)
    assert trouble.category is Category.PANE_NOT_READY
    assert trouble.rollback_occurred
    assert trouble.ids["pane_id"] == "slot-1"
    assert trouble.details["stage"] == "readiness"
    assert trio.current_time() - started < READY_S
    await check_usable(desk)


async def test_an_agent_that_is_never_ready_is_ended_in_time_with_what_it_showed(
    herd_clock: MockClock,
    desk: Desk,
) -> None:
    class Talking(Puppet):
        async def serve(self, conversation: Any, started: Any) -> None:
            conversation._output.append("cannot find the model")
            await super().serve(conversation, started)

    desk.attendant = lambda birth: Talking(desk=desk, birth=birth, is_mute=True)
    started = trio.current_time()
    trouble = await failure(desk)
    assert trouble.category is Category.PANE_NOT_READY
    assert trouble.details["recent_output"] == ["cannot find the model"]
    assert READY_S <= trio.current_time() - started < READY_S + 5
    await check_usable(desk)


async def test_an_agent_that_shows_nothing_in_time_is_ended_all_the_same(
    herd_clock: MockClock, desk: Desk
) -> None:
    class Hiding(Seeing):
        async def capture(self, identity: Identity) -> Sequence[str]:
            await trio.Event().wait()
            return ()

    puppets(desk, is_mute=True)
    with pytest.raises(HerdError, match="not ready") as caught:
        await call(seen_by(desk, Hiding(desk)))
    assert "recent_output" not in caught.value.trouble.details
    await check_usable(desk)


async def test_a_start_that_takes_for_ever_is_given_up(herd_clock: MockClock, desk: Desk) -> None:
    desk.runtime.start_takes_s = START_S * 2
    trouble = await failure(desk)
    assert trouble.category is Category.PANE_NOT_READY
    assert trouble.rollback_occurred
    desk.runtime.start_takes_s = 0
    await check_usable(desk)


async def test_a_machine_that_refuses_to_start_anything_is_an_answer(
    herd_clock: MockClock, desk: Desk
) -> None:
    faults.install("error:played.custom.started:1:ENOSPC")
    try:
        trouble = await failure(desk)
    finally:
        faults.install("")
    assert trouble.category is Category.INTERNAL_FAILURE
    assert "No space left" in trouble.message
    assert trouble.rollback_occurred


async def test_an_agent_that_claims_another_session_is_ended(
    herd_clock: MockClock, desk: Desk
) -> None:
    puppets(desk, session=session("another"))
    trouble = await failure(desk)
    assert trouble.category is Category.TARGET_AMBIGUOUS
    assert trouble.rollback_occurred
    await check_usable(desk)


async def test_a_mailbox_that_is_another_agents_by_now_is_left_alone(
    herd_clock: MockClock, desk: Desk
) -> None:
    puppets(desk, generation=GenerationId(session("another")))
    trouble = await failure(desk)
    assert trouble.category is Category.ROLLBACK_FAILURE
    assert trouble.primary is not None
    assert trouble.primary.category is Category.TARGET_AMBIGUOUS
    assert trouble.cleanup is not None
    assert trouble.cleanup.category is Category.TARGET_AMBIGUOUS
    assert await desk.labels() == ["mine"]


class Seeing:
    """A runtime through which a test sees what it likes; the rest is the desk's."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.looks = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._desk.runtime, name)

    def see(self, inventory: Inventory) -> Inventory:
        return inventory

    async def inventory(self, states: Sequence[State]) -> Inventory:
        self.looks += 1
        return self.see(await self._desk.runtime.inventory(states))


def seen_by(desk: Desk, runtime: Seeing) -> Controller:
    controller = desk.controller()
    object.__setattr__(controller, "runtime", runtime)
    return controller


async def test_a_runtime_may_take_a_moment_to_tell_the_session(
    herd_clock: MockClock, desk: Desk
) -> None:
    class Slow(Seeing):
        def see(self, inventory: Inventory) -> Inventory:
            return Inventory((), inventory.slots) if self.looks < 6 else inventory

    await call(seen_by(desk, Slow(desk)))


async def test_a_runtime_that_never_tells_the_session_is_not_waited_for_long(
    herd_clock: MockClock, desk: Desk
) -> None:
    class Blind(Seeing):
        def see(self, inventory: Inventory) -> Inventory:
            return Inventory((), inventory.slots)

    with pytest.raises(HerdError, match="does not tell") as caught:
        await call(seen_by(desk, Blind(desk)))
    assert caught.value.trouble.category is Category.PANE_NOT_READY
    assert caught.value.trouble.rollback_occurred
    await check_usable(desk)


async def test_another_session_in_the_agents_place_is_never_adopted(
    herd_clock: MockClock, desk: Desk
) -> None:
    class Other(Seeing):
        def see(self, inventory: Inventory) -> Inventory:
            (agent,) = inventory.agents
            other = LiveAgent(agent.workspace, agent.handle, session("x"), "/x", agent.lifecycle)
            elsewhere = replace(agent, handle=Handle("elsewhere"))
            return Inventory((elsewhere, other), inventory.slots)

    seeing = Other(desk)
    with pytest.raises(HerdError, match="another session") as caught:
        await call(seen_by(desk, seeing))
    assert caught.value.trouble.category is Category.TARGET_AMBIGUOUS
    assert seeing.looks <= 2


async def test_a_record_that_is_too_long_with_the_real_place_delivers_no_task(
    herd_clock: MockClock,
    desk: Desk,
) -> None:
    made = puppets(desk)
    desk.runtime.handle_prefix = "x" * 500
    desk.premises.root.mkdir(parents=True)
    desk.premises.config_file.write_text('{"mailboxPayloadLimitBytes": 1100}', "utf-8")
    trouble = await failure(desk, "x" * 400)
    assert trouble.category is Category.INVALID_REQUEST
    assert "1,100" in trouble.message
    assert trouble.rollback_occurred
    assert made[0].taken == []
    desk.premises.config_file.unlink()
    await check_usable(desk)


async def test_a_task_that_is_taken_at_the_last_moment_is_taken_once(
    herd_clock: MockClock, desk: Desk
) -> None:
    made = puppets(desk)
    answers: list[dict[str, Any]] = []

    async def one() -> None:
        answers.append(await call(desk.controller()))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(one)
        await desk.settle()
        async with desk.mailbox("mine").hold():
            # The agent waits for its mailbox, and whoever gives up waiting for it comes after it.
            made[0].takes.set()
            await trio.sleep(TASK_PATIENCE_S + 1)
    assert [answer["request_id"] for answer in answers] == made[0].taken
    assert await desk.labels() == ["mine"]


async def test_a_task_that_is_not_taken_is_withdrawn_and_the_agent_ended(
    herd_clock: MockClock, desk: Desk
) -> None:
    made = puppets(desk)
    trouble = await failure(desk)
    assert trouble.category is Category.INTERNAL_FAILURE
    assert "has not taken" in trouble.message
    assert trouble.rollback_occurred
    made[0].takes.set()
    await desk.settle()
    assert made[0].taken == []
    await check_usable(desk)


async def test_a_task_that_is_refused_is_an_answer_and_the_agent_ended(
    herd_clock: MockClock, desk: Desk
) -> None:
    opened = trio.Event()
    opened.set()
    puppets(desk, refuses=RejectionCode.IDENTITY, takes=opened)
    trouble = await failure(desk)
    assert "refused its task: identity" in trouble.message
    assert trouble.rollback_occurred
    await check_usable(desk)


async def test_where_nobody_can_tell_whether_the_task_was_taken_it_stays(
    herd_clock: MockClock, desk: Desk
) -> None:
    puppets(desk)
    troubles: list[Trouble] = []

    async def one() -> None:
        troubles.append(await failure(desk))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(one)
        await desk.settle()
        async with desk.mailbox("mine").hold():
            await trio.sleep(TASK_PATIENCE_S + LOCK_S + 2)
    (trouble,) = troubles
    assert trouble.category is Category.ROLLBACK_FAILURE
    assert not trouble.rollback_occurred
    assert trouble.retry_attempted
    assert trouble.primary is not None
    assert "has not taken" in trouble.primary.message
    assert trouble.cleanup is not None
    assert "locked" in trouble.cleanup.message
    assert "do not give the task again" in trouble.next_action
    contents = await desk.mailbox("mine").read()
    assert contents is not None
    assert isinstance(contents.pending, OnePending)
    assert not desk.runtime.agent("mine").is_gone.is_set()
    # Nobody may end by itself what may be at work.
    assert desk.endings.cleanup_errors == {}


async def test_what_cannot_be_proved_to_be_ours_is_left_and_both_causes_are_told(
    herd_clock: MockClock,
    desk: Desk,
) -> None:
    class Doubting(Seeing):
        async def stop(self, identity: Identity) -> None:
            raise ambiguous("somebody else is there")

    puppets(desk)
    with pytest.raises(HerdError) as caught:
        await call(seen_by(desk, Doubting(desk)))
    trouble = caught.value.trouble
    assert trouble.category is Category.ROLLBACK_FAILURE
    fields = trouble.as_fields()
    assert "has not taken" in fields["primary"]["message"]
    assert fields["cleanup"]["message"] == "somebody else is there"
    assert trouble.next_action
    agent = desk.runtime.agent("mine")
    assert not agent.is_gone.is_set()
    assert await desk.labels() == ["mine"]
    # The task was withdrawn, so that whoever looks after the session may end the agent.
    assert list(desk.endings.cleanup_errors) == [agent.identity.of.generation]


async def test_an_agent_that_is_not_found_but_seems_to_be_there_is_left(
    herd_clock: MockClock, desk: Desk
) -> None:
    class Losing(Seeing):
        is_blind = False

        async def stop(self, identity: Identity) -> None:
            self.is_blind = True
            raise HerdError(Trouble(Category.TARGET_NOT_FOUND, "not here"))

        async def inventory(self, states: Sequence[State]) -> Inventory:
            if self.is_blind:
                raise ExternalError("no answer")
            return await super().inventory(states)

    puppets(desk)
    with pytest.raises(HerdError, match="not here"):
        await call(seen_by(desk, Losing(desk)))
    assert await desk.labels() == ["mine"]


async def test_undoing_is_given_up_when_it_takes_for_ever(
    herd_clock: MockClock, desk: Desk
) -> None:
    class Stuck(Seeing):
        async def stop(self, identity: Identity) -> None:
            await trio.sleep_forever()

    puppets(desk)
    with pytest.raises(HerdError, match="undoing it took longer") as caught:
        await call(seen_by(desk, Stuck(desk)))
    assert caught.value.trouble.category is Category.ROLLBACK_FAILURE


async def test_a_request_that_cannot_be_told_keeps_the_mailbox(
    herd_clock: MockClock, desk: Desk
) -> None:
    class Cluttering(Puppet):
        async def serve(self, conversation: Any, started: Any) -> None:
            folder = desk.mailbox("mine").folder
            async with trio.open_nursery() as nursery:
                nursery.start_soon(super().serve, conversation, started)
                await trio.sleep(1)
                (folder / f"request-{session('x')}.json").write_text("{", "utf-8")

    desk.attendant = lambda birth: Cluttering(desk=desk, birth=birth)
    trouble = await failure(desk)
    assert trouble.category is Category.ROLLBACK_FAILURE
    assert trouble.cleanup is not None
    assert "request" in trouble.cleanup.message
    assert await desk.labels() == ["mine"]


@pytest.mark.parametrize("stage", ["start", "readiness", "task"])
async def test_a_call_that_is_cancelled_leaves_nothing(
    herd_clock: MockClock, desk: Desk, stage: str
) -> None:
    puppets(desk, is_mute=stage == "readiness")
    desk.runtime.start_takes_s = 100 if stage == "start" else 0
    with trio.move_on_after(5) as scope:
        await call(desk.controller())
    assert scope.cancelled_caught
    desk.runtime.start_takes_s = 0
    await check_usable(desk)


async def test_a_task_that_was_taken_when_the_call_was_cancelled_goes_on(
    herd_clock: MockClock, desk: Desk
) -> None:
    made = puppets(desk)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call, desk.controller())
        await desk.settle()
        async with desk.mailbox("mine").hold():
            made[0].takes.set()
            await desk.settle()
            nursery.cancel_scope.cancel()
    assert len(made[0].taken) == 1
    state = await desk.state("mine")
    assert state is not None
    assert state.active == made[0].taken[0]
    assert not desk.runtime.agent("mine").is_gone.is_set()


@pytest.mark.parametrize("is_stuck", [False, True])
async def test_what_a_cancelled_call_cannot_undo_is_noted(
    herd_clock: MockClock, desk: Desk, caplog: pytest.LogCaptureFixture, *, is_stuck: bool
) -> None:
    class Failing(Seeing):
        async def stop(self, identity: Identity) -> None:
            if is_stuck:
                await trio.sleep_forever()
            raise broken("no way")

    puppets(desk)
    with trio.move_on_after(5):
        await call(seen_by(desk, Failing(desk)))
    (left,) = desk.endings.cleanup_errors.values()
    assert left == ("undoing it took longer than 60 s" if is_stuck else "no way")
    assert await desk.labels() == ["mine"]


async def test_an_agent_at_its_own_mailbox_is_waited_for(herd_clock: MockClock, desk: Desk) -> None:
    opened = trio.Event()
    opened.set()
    puppets(desk, takes=opened)
    # Between the agent's first state and its task.
    desk.runtime.start_takes_s = 0.5
    async with trio.open_nursery() as nursery:

        async def in_the_way() -> None:
            await trio.sleep(0.5)
            async with desk.mailbox("mine").hold():
                await trio.sleep(1)

        nursery.start_soon(in_the_way)
        await call(desk.controller())
    contents = await desk.mailbox("mine").read()
    assert contents is not None
    assert not contents.has_pending_request


async def try_to_delegate(desk: Desk) -> None:
    with suppress(Died, HerdError):
        await call(desk.controller())


@pytest.mark.slow
@pytest.mark.unmeasured
async def test_whoever_dies_at_any_step_leaves_one_generation_at_most_and_no_label_lost(
    tmp_path: Path, herd_clock: MockClock
) -> None:
    async with open_desk(tmp_path / "whole") as desk:
        with passed_points() as passed:
            await call(desk.controller())
            await desk.settle()
    places = [(name, passed[:at].count(name) + 1) for at, name in enumerate(passed)]
    assert len(places) > 10
    visible = 0
    for number, (name, passes) in enumerate(places):
        async with open_desk(tmp_path / str(number)) as desk:
            with dying_at(name, passes) as death:
                await try_to_delegate(desk)
                await desk.settle()
            assert death.happened
        async with open_desk(tmp_path / str(number)) as later:
            labels = await later.labels()
            seen = await look(later.premises, later.runtime)
            shown = [one.contents.state.of.label for one in seen.view(later.controller().caller)]
            assert shown == labels
            if labels:
                assert labels == ["mine"]
                visible += 1
                await close(later.controller(), agent="mine")
            await call(later.controller())
            assert await later.labels() == ["mine"]
    assert 0 < visible < len(places)
