"""A person's real Pi whose model delegates to managed agents."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agents.herdsman.runtime import RESULT
from tests.support.coordinators import Desk, open_desk
from tests.support.herd_desk import call, define, mailboxes, messages, told
from tests.support.live import agents_left
from tests.support.projects import Project

pytestmark = pytest.mark.slow


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    project = Project.create(tmp_path, {"a.txt": "one\n"})
    async with open_desk(project) as opened:
        yield opened
    assert agents_left(project) == []


async def test_agent_works_by_itself_and_its_result_arrives_once(desk: Desk) -> None:
    define(desk, "reader", {"*": [{"text": "It says one."}]})
    async with desk.pi() as pi:
        answer = await call(
            desk, pi, "agent_delegate", definition="reader", label="eye", task="Read a.txt."
        )
        assert answer["ok"], answer
        await pi.until(told(RESULT))
        listed = await call(desk, pi, "agent_list")
        assert listed["agents"] == []
    (message,) = messages(desk)
    assert "It says one." in message["content"]
    assert message["details"]["agentLabel"] == "eye"
    assert mailboxes(desk) == []
