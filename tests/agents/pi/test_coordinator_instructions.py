"""What a real Pi's model is told of managed agents before anybody asks it for one."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.coordinators import Desk, open_desk
from tests.support.herd_desk import call, define
from tests.support.projects import Project

pytestmark = pytest.mark.slow


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with open_desk(Project.create(tmp_path, {"a.txt": "one\n"})) as opened:
        yield opened


async def test_session_begins_with_the_definitions_that_a_list_would_show(desk: Desk) -> None:
    define(desk, "reader", {"*": [{"text": "It says one."}]})
    async with desk.pi() as pi:
        listed = await call(desk, pi, "agent_list")
        told = json.dumps(desk.mind.heard[0].body["messages"][0], ensure_ascii=False)
        shown = json.loads(told)["content"]
    text = shown if isinstance(shown, str) else "".join(part["text"] for part in shown)
    names = [each["name"] for each in listed["agent_definitions"]]
    assert "reader" in names
    for each in listed["agent_definitions"]:
        assert json.dumps(each, ensure_ascii=False) in text
