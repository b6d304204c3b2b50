"""How an agent's own half begins: with a mailbox of its own, new or found again, or not at all."""

from dataclasses import replace
from pathlib import Path

from trio.testing import MockClock

from agents.herdsman.identity import GenerationId, Handle, SessionId
from agents.herdsman.record import Injection, RequestKind, Result, State
from agents.herdsman.runtime import REQUEST
from tests.support.deaths import failing_at
from tests.support.herd_agents import HERE
from tests.support.herd_members import Pen, open_pen
from tests.support.herd_records import uid
from tests.support.herd_talk import Call, Turn


async def overwrite(pen: Pen, state: State) -> None:
    """Let somebody else have written the state."""
    async with pen.mailbox.hold():
        await pen.mailbox.write_state(state)


async def died(pen: Pen, *turns: Turn) -> State:
    """Let the agent die while it works on its task, and return its state."""
    pen.script.play(*turns)
    await pen.start()
    await pen.give()
    state = await pen.wait_state(lambda state: state.injection is None)
    await pen.runtime.kill(pen.agent)
    return state


async def test_first_state_says_who_the_agent_is_and_where(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        agent = await pen.start()
        await pen.wait_ready()
        state = await pen.state()
        assert state.identity == agent.identity
        assert state.session_file == str(agent.conversation.session_file)
        assert (state.definition, state.proof) == ("scout", HERE)
        assert (state.active, state.completed, state.acknowledgement) == (None, None, None)


async def test_first_state_that_cannot_be_written_is_written_when_it_can(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        with failing_at("herd.state.started", times=3):
            await pen.start()
            await pen.wait_ready()
        assert len(await pen.faults()) == 1
        pen.script.play(Turn("All is well."))
        assert (await pen.give()).accepted


async def test_agent_that_is_back_goes_on_and_shows_it_at_once(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        before = await died(pen, Turn("half", hangs=True))
        await pen.pass_time(60)
        await pen.restart()
        after = await pen.wait_state(
            lambda state: state.last_activity_ms != before.last_activity_ms
        )
        assert after.active == before.active
        assert pen.talk.heard(REQUEST) == ["look around"]
        assert await pen.faults() == []


async def test_result_that_was_written_before_a_crash_ends_the_assignment(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        state = await died(pen, Turn("half", hangs=True))
        assert state.active is not None
        result = Result(state.of, state.active, "completed", 1, text="All is well.")
        async with pen.mailbox.hold():
            await pen.mailbox.write_result(result)
        written = pen.files()[f"result-{state.active}.json"]
        await pen.restart()
        after = await pen.wait_completed()
        assert (after.active, after.completed) == (None, state.active)
        assert pen.files()[f"result-{state.active}.json"] == written


async def test_result_of_another_generation_is_reported_and_left(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        state = await died(pen, Turn("half", hangs=True))
        assert state.active is not None
        other = replace(state.of, generation=GenerationId(uid("another")))
        result = Result(other, state.active, "completed", 1, text="All is well.")
        async with pen.mailbox.hold():
            await pen.mailbox.write_result(result)
        before = pen.files()
        await pen.restart()
        await pen.pass_time(60)
        assert (await pen.state()).active == state.active
        assert pen.files()[f"result-{state.active}.json"] == before[f"result-{state.active}.json"]
        assert len(await pen.faults()) == 1


async def test_task_that_was_accepted_and_never_read_is_read_once(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        await pen.start()
        await pen.wait_ready()
        await pen.runtime.kill(pen.agent)
        task = pen.request("task", RequestKind.TASK, "look around")
        await pen.leave(task)
        state = await pen.state()
        injection = Injection(task.request, RequestKind.TASK)
        await overwrite(pen, replace(state, active=task.request, injection=injection))
        pen.script.play(Turn("All is well.", takes_s=10))
        await pen.restart()
        await pen.wait_heard(1)
        await pen.wait_state(lambda state: state.injection is None)
        await pen.wait_completed()
        assert pen.talk.heard(REQUEST) == ["look around"]
        assert pen.requests() == []


async def test_accepted_text_that_is_gone_is_reported(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        state = await died(pen, Turn("half", hangs=True))
        lost = Injection(pen.request("lost", RequestKind.INTERRUPT, "x").request, RequestKind.TASK)
        await overwrite(pen, replace(state, injection=lost))
        await pen.restart()
        await pen.pass_time(60)
        assert (await pen.state()).injection == lost
        assert len(await pen.faults()) == 1


async def refuses(pen: Pen) -> None:
    """Check that the agent begins nothing, says why once, and leaves the mailbox as it is."""
    before = pen.files() if pen.mailbox.folder.exists() else None
    await pen.restart()
    await pen.pass_time(60)
    assert not pen.agent.is_gone.is_set()
    assert len(await pen.faults()) == 1
    after = pen.files() if pen.mailbox.folder.exists() else None
    assert after == before


async def test_mailbox_of_another_generation_is_left_alone(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        state = await died(pen, Turn("half", hangs=True))
        other = replace(state.of, generation=GenerationId(uid("another")))
        await overwrite(pen, replace(state, of=other))
        await refuses(pen)


async def test_mailbox_that_differs_in_any_part_of_the_identity_is_left_alone(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        state = await died(pen, Turn("half", hangs=True))
        for other in (
            replace(state, session=SessionId(uid("another"))),
            replace(state, session_file="/elsewhere.jsonl"),
            replace(state, cwd="/elsewhere"),
            replace(state, of=replace(state.of, handle=Handle("elsewhere"))),
        ):
            await overwrite(pen, other)
            await refuses(pen)
            await pen.runtime.kill(pen.agent)
            await overwrite(pen, state)
            # What was reported is the session's, and counts for the next one too.
            pen.talk.session_file.write_text(
                "".join(
                    line
                    for line in pen.talk.session_file.read_text().splitlines(keepends=True)
                    if "pinata-agent-fault" not in line
                )
            )


async def test_mailbox_that_cannot_be_read_is_left_alone(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        await died(pen, Turn("half", hangs=True))
        (path,) = pen.mailbox.folder.glob("state*")
        path.write_text("{")
        await refuses(pen)


async def test_mailbox_that_comes_or_goes_while_it_is_looked_at_is_left_alone(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        await died(pen, Turn("half", hangs=True))
        async with pen.mailbox.hold():
            await pen.restart()
            await pen.pass_time(1)
            await pen.mailbox.remove()
        await pen.pass_time(60)
        assert not pen.mailbox.folder.exists()
        assert len(await pen.faults()) == 1


async def test_agent_that_does_not_begin_does_as_it_is_told_by_nobody(
    herd_clock: MockClock, tmp_path: Path
) -> None:
    async with open_pen(tmp_path) as pen:
        state = await died(pen, Turn("half", calls=(Call("bash"),), hangs=True))
        other = replace(state.of, generation=GenerationId(uid("another")))
        await overwrite(pen, replace(state, of=other))
        before = pen.files()
        await pen.restart()
        await pen.leave(pen.request("steer", RequestKind.STEER, "go on"))
        await pen.pass_time(10)
        assert len(pen.requests()) == 1
        assert pen.talk.heard(REQUEST) == ["look around"]
        assert before.keys() < pen.files().keys()
