"""The herd of a session's host: how long it is busy, whose agents it shows, and who ends them."""

import errno
import math
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from agents.herdsman.closing import close
from agents.herdsman.errors import HerdError
from agents.herdsman.identity import SessionId
from agents.herdsman.premises import Premises
from agents.herdsman.record import State
from agents.herdsman.runtime import QUESTION, Inventory
from engine.core.errors import ExternalError, UsageError
from pinata import app
from pinata.work.herd_place import Place, premises_of
from pinata.work.herd_runtime import HerdRuntime
from pinata.work.observer import Silence
from tests.support.clock import patient_clock
from tests.support.deaths import failing_at
from tests.support.herd_hosts import HerdHost, PlayedSession, open_herd_host
from tests.support.projects import Project, says

HANGS = {"hang": True}
ANSWERS = {"text": "All is well."}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, {"a.txt": "one\n"})


@pytest.fixture
def day_clock() -> MockClock:
    return patient_clock()


async def wait_idle(host: HerdHost) -> None:
    with trio.fail_after(30):
        await host.herd.wait_idle()


async def test_host_is_busy_from_the_start_of_an_agent_until_its_result_is_written(
    project: Project,
) -> None:
    async with open_herd_host(project) as host:
        host.define("scout", ANSWERS)
        await wait_idle(host)
        await host.delegate("scout", "eye")
        # Nobody has looked again yet: the agent is there all the same.
        assert not host.herd.is_idle
        await wait_idle(host)
        assert await host.agents() == {"eye": "settling"}
        with host.attached() as session:
            (text,) = await session.until_told()
            await host.until({})
            await host.until_clear()
        assert "All is well." in text


async def test_agent_that_waits_for_an_answer_keeps_its_host_busy_until_it_is_closed(
    project: Project,
) -> None:
    async with open_herd_host(project) as host:
        host.define("asker", says("ask_owner", question="One or two?"))
        with host.attached() as session:
            await host.delegate("asker", "mouth")
            (asked,) = await session.until_told(kind=QUESTION)
            assert "One or two?" in asked
            await host.screen.until({"mouth": "blocked"})
        assert not host.herd.is_idle
        assert (await host.call("agent_close", agent="mouth"))["ok"]
        await wait_idle(host)


async def test_agents_of_a_host_that_is_gone_are_lost_can_be_closed_and_their_sessions_go_on(
    project: Project,
) -> None:
    async with open_herd_host(project) as host:
        host.define("scout", HANGS)
        session = (await host.delegate("scout", "eye"))["session_id"]
        state = await host.agents()
        assert state == {"eye": "working"}
    async with open_herd_host(project) as host:
        with host.attached():
            await host.screen.until({"eye": "lost"})
        assert await host.agents() == {"eye": "lost"}
        refused = await host.call("agent_continue", session=session, task="Go on.")
        assert refused["error"]["category"] == "agent_busy"
        assert (await host.call("agent_close", agent="eye"))["ok"]
        assert await host.agents() == {}
        host.define("scout", ANSWERS)
        with host.attached() as told:
            continued = await host.call("agent_continue", session=session, task="Go on.")
            assert continued["session_id"] == session
            assert "All is well." in (await told.until_told())[0]


async def test_two_sessions_of_one_workspace_see_their_own_agents_alone(project: Project) -> None:
    async with open_herd_host(project) as one, open_herd_host(project, "other") as other:
        one.define("scout", HANGS)
        await one.delegate("scout", "eye")
        assert await other.agents() == {}
        for tool in ("agent_close", "agent_inspect", "agent_transcript"):
            refused = await other.call(tool, agent="eye")
            assert refused["error"]["category"] == "target_not_found"
        taken = await other.call("agent_delegate", definition="scout", label="eye", task="Begin.")
        assert taken["error"]["category"] == "agent_label_exists"
        await other.delegate("scout", "ear")
        assert await one.agents() == {"eye": "working"}
        assert await other.agents() == {"ear": "working"}
        assert one.herd.is_idle is other.herd.is_idle is False


async def test_agent_that_delegates_owns_what_it_starts_and_may_start_no_other(
    project: Project,
) -> None:
    delegates = says("agent_delegate", definition="idler", label="child", task="Wait.")
    forbidden = says("agent_delegate", definition="boss", label="other", task="Wait.")
    async with open_herd_host(project) as host:
        host.define("idler", HANGS)
        host.define("boss", forbidden, delegates, {"text": "I wait."}, agents=["idler"])
        boss = SessionId((await host.delegate("boss", "boss"))["session_id"])
        await host.until({"boss": "blocked", "child": "working"})
        assert (await host.call("agent_close", agent="child"))["ok"] is False
        owner = await host.herd.owner(boss, host.place)
        assert owner.caller.allowed == frozenset(["idler"])
        assert not owner.caller.is_lead
        assert (await host.call("agent_close", agent="boss"))["ok"]
        with pytest.raises(HerdError, match="is not there"):
            await host.herd.owner(boss, host.place)
        await wait_idle(host)
        await host.until_clear()


async def test_what_is_shown_follows_the_agents(project: Project) -> None:
    async with open_herd_host(project) as host:
        host.define("scout", HANGS)
        with host.attached():
            await host.screen.until({})
            await host.delegate("scout", "eye")
            await host.screen.until({"eye": "working"})
            await host.call("agent_close", agent="eye")
            await host.screen.until({})


async def test_what_is_shown_tells_why_an_agent_is_still_here_as_the_list_does(
    project: Project,
) -> None:
    async with open_herd_host(project) as host:
        host.define("scout", HANGS)
        with host.attached():
            await host.delegate("scout", "eye")
            (generation,) = host.herd._runtime.generations
            owner = await host.herd.controller(host.place)
            owner.endings.delivery_errors[generation] = "the disk is full"
            owner.premises.signals.ring(host.session)
            await host.screen.until_left({"eye": "the disk is full"})
            (eye,) = (await host.call("agent_list"))["agents"]
            assert eye["cleanup_error"] == "the disk is full"
            await host.call("agent_close", agent="eye")


async def test_what_was_closed_from_elsewhere_is_cleared_up_and_not_told_as_lost(
    project: Project, day_clock: MockClock
) -> None:
    async with open_herd_host(project, patience_s=math.inf) as host:
        host.define("scout", HANGS)
        elsewhere = project.repo.root / "below"
        elsewhere.mkdir()
        with host.attached() as seat:
            await host.delegate("scout", "eye")
            owner = await host.herd.controller(Place(elsewhere, None))
            with failing_at("herd.mailbox.emptied"):
                assert "cleanup_error" in await close(owner, agent="eye")
            await trio.sleep(60)
        assert host.mailboxes == []
        assert seat.entered == []


async def test_herd_without_agents_does_nothing_for_a_day(
    project: Project, monkeypatch: pytest.MonkeyPatch, day_clock: MockClock
) -> None:
    looks = 0
    look = HerdRuntime.inventory

    async def counted(runtime: HerdRuntime, states: Sequence[State]) -> Inventory:
        nonlocal looks
        looks += 1
        return await look(runtime, states)

    monkeypatch.setattr(HerdRuntime, "inventory", counted)
    async with open_herd_host(project, patience_s=math.inf) as host:
        with host.attached():
            # What follows from the first looks is over by then.
            await trio.sleep(3600)
            before = looks
            await trio.sleep(24 * 3600)
            assert looks == before > 0
            host.define("scout", HANGS)
            await host.delegate("scout", "eye")
            await trio.sleep(3600)
            # Every half a minute somebody sees how it is.
            assert looks > before + 100


async def test_session_is_told_which_definitions_there_are(project: Project) -> None:
    async with open_herd_host(project) as host:
        host.define("scout", HANGS)
        with host.attached() as seat:
            told = await host.herd.instructions(seat)
        assert told is not None
        assert "scout" in told


async def test_whoever_asks_at_once_is_one_owner(project: Project) -> None:
    found = []
    async with open_herd_host(project) as host:

        async def find() -> None:
            found.append(await host.herd.controller(host.place))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(find)
            nursery.start_soon(find)
    one, other = found
    assert one.turn is other.turn
    assert one.endings.delivery_errors is other.endings.delivery_errors


async def test_session_that_knows_of_no_agents_has_what_they_bring_told_later(
    project: Project,
) -> None:
    async with open_herd_host(project) as host:
        host.define("scout", ANSWERS)
        await host.delegate("scout", "eye")
        old = PlayedSession(project.repo.root, host.herd.told)
        with host.herd.attached(old, owns_agents=False):
            await wait_idle(host)
            assert await host.agents() == {"eye": "settling"}
            assert old.entered == []
        with host.attached() as session:
            assert "All is well." in (await session.until_told())[0]


async def test_look_that_fails_is_said_and_the_next_one_is_made_all_the_same(
    project: Project, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails = True
    look = HerdRuntime.inventory

    async def broken(runtime: HerdRuntime, states: Sequence[State]) -> Inventory:
        if fails:
            raise ExternalError("the disk is broken")
        return await look(runtime, states)

    monkeypatch.setattr(HerdRuntime, "inventory", broken)
    async with open_herd_host(project) as host:
        host.define("scout", ANSWERS)
        with host.attached() as session:
            refused = await host.call("agent_list")
            assert refused["error"]["category"] == "internal_failure"
            while "it cannot be told which agents there are" not in caplog.text:
                await trio.lowlevel.checkpoint()
            fails = False
            await host.delegate("scout", "eye")
            await session.until_told()
            await host.screen.until({})


async def test_host_serves_although_what_others_left_and_its_looks_break_off(
    project: Project, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails = True
    look = HerdRuntime.inventory

    async def broken(runtime: HerdRuntime, states: Sequence[State]) -> Inventory:
        if fails:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return await look(runtime, states)

    async def break_off(premises: Premises) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(HerdRuntime, "inventory", broken)
    monkeypatch.setattr("pinata.work.herd.end_orphans", break_off)
    async with open_herd_host(project) as host:
        host.define("scout", ANSWERS)
        with host.attached() as session, trio.fail_after(60):
            while "which agents there are, by a fault of pinata" not in caplog.text:
                await trio.lowlevel.checkpoint()
            assert "what dead hosts started may be left" in caplog.text
            fails = False
            await host.delegate("scout", "eye")
            await session.until_told()
            await host.screen.until({})


async def test_repository_that_cannot_be_told_fails_the_call_and_no_later_one(
    project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    config = project.repo.root / ".git" / "config"
    good = config.read_text()
    config.write_text("[core\n")
    async with open_herd_host(project) as host:
        host.define("scout", ANSWERS)
        with host.attached() as session:
            with pytest.raises(ExternalError, match="cannot tell which repository"):
                await host.agents()
            while "agents are not looked after" not in caplog.text:
                await trio.lowlevel.checkpoint()
            config.write_text(good)
            await host.delegate("scout", "eye")
            await session.until_told()
            await host.until_clear()


async def test_herd_needs_a_place_for_its_data(project: Project) -> None:
    with pytest.raises(UsageError, match="set HOME, or PI_CODING_AGENT_DIR"):
        premises_of(app.build_context({}, project.repo.root, Silence()))
