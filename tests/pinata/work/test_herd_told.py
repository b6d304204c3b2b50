"""A session without a person ends once it was told what its agents came to, and no sooner."""

import math
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from agents.herdsman.runtime import QUESTION
from engine.records.host_owner import HistoryFrame, IdleFrame
from pinata.work.herd import TELLING_S
from tests.support.clock import patient_clock
from tests.support.herd_hosts import HerdHost, PlayedSession, open_herd_host
from tests.support.projects import Project, says

HANGS = {"hang": True}
ANSWERS = {"text": "All is well."}
LONG_S = 3600.0


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, {"a.txt": "one\n"})


@pytest.fixture
def day_clock() -> MockClock:
    return patient_clock()


@asynccontextmanager
async def waiting(host: HerdHost) -> AsyncIterator[trio.Event]:
    """Wait for all to be told inside the block; the event is set when it is."""
    is_told = trio.Event()

    async def wait() -> None:
        await host.herd.wait_told()
        is_told.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        yield is_told
        nursery.cancel_scope.cancel()


async def took_s(host: HerdHost) -> float:
    """Return how long it was waited until all was told."""
    began = trio.current_time()
    await host.herd.wait_told()
    return trio.current_time() - began


async def test_session_that_never_had_a_program_waits_for_nothing(project: Project) -> None:
    async with open_herd_host(project) as host:
        host.define("scout", HANGS)
        await host.delegate("scout", "eye")
        await host.herd.wait_told()


async def test_result_is_waited_for_and_in_the_session_then(project: Project) -> None:
    async with open_herd_host(project) as host:
        host.define("scout", ANSWERS)
        with host.attached() as session:
            await host.delegate("scout", "eye")
            await host.herd.wait_told()
            (text,) = session.texts()
            assert "All is well." in text


async def test_agent_at_work_is_waited_for_however_long_it_takes(
    project: Project, day_clock: MockClock
) -> None:
    async with open_herd_host(project, patience_s=math.inf) as host:
        host.define("scout", HANGS)
        with host.attached():
            await host.delegate("scout", "eye")
            async with waiting(host) as is_told:
                await trio.sleep(LONG_S)
                assert not is_told.is_set()
                assert (await host.call("agent_close", agent="eye"))["ok"]
                await is_told.wait()


async def test_agent_that_asks_is_not_waited_for_once_its_question_is_told(
    project: Project, day_clock: MockClock
) -> None:
    async with open_herd_host(project, patience_s=math.inf) as host:
        host.define("asker", says("ask_owner", question="One or two?"))
        own = trio.lowlevel.current_task()

        class Slow(PlayedSession):
            """Is idle, and so told of the question, after it was read and before it has answered.

            Whoever waits cannot know of the question by the answer, only by its being sent.
            """

            async def send(self, frame: Mapping[str, Any]) -> bool:
                if frame["type"] != "read_history" or trio.lowlevel.current_task() is not own:
                    return await super().send(frame)
                answer = HistoryFrame(type="history", request=frame["request"], entries=[])
                if not self.entered:
                    host.herd.told(IdleFrame(type="idle", idle=True))
                    await self.until_told(kind=QUESTION)
                    host.herd.told(answer)
                    return True
                return await super().send(frame)

        session = Slow(project.repo.root, host.herd.told)
        with host.herd.attached(session, owns_agents=True):
            await host.delegate("asker", "mouth")
            await host.screen.until({"mouth": "blocked"})
            assert await took_s(host) < TELLING_S
            (text,) = session.texts(QUESTION)
            assert "One or two?" in text
            assert await host.agents() == {"mouth": "blocked"}


async def test_session_that_takes_no_question_is_not_waited_for_without_end(
    project: Project, day_clock: MockClock
) -> None:
    async with open_herd_host(project, patience_s=math.inf) as host:
        host.define("asker", says("ask_owner", question="One or two?"))
        with host.attached(idle=False) as session:
            await host.delegate("asker", "mouth")
            await host.screen.until({"mouth": "blocked"})
            assert TELLING_S <= await took_s(host) < 2 * TELLING_S
            assert session.texts(QUESTION) == []


async def test_result_for_a_program_that_has_left_is_waited_for_by_nobody(
    project: Project, day_clock: MockClock
) -> None:
    async with open_herd_host(project, patience_s=math.inf) as host:
        host.define("scout", ANSWERS)
        with host.attached():
            pass
        await host.delegate("scout", "eye")
        await host.screen.until({"eye": "settling"})
        assert await took_s(host) < TELLING_S
        assert await host.agents() == {"eye": "settling"}


async def test_session_is_told_of_no_definitions_where_nobody_can_tell_which_there_are(
    project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    (project.repo.root / ".git" / "config").write_text("[core\n")
    async with open_herd_host(project) as host:
        with host.attached() as seat:
            assert await host.herd.instructions(seat) is None
    assert "the session is told nothing of agents: cannot tell which repository" in caplog.text
