"""What a real Pi's model is told of managed agents before anybody asks it for one."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agents.herdsman.runtime import QUESTION
from tests.support.coordinators import Desk, open_desk
from tests.support.herd_desk import call, define, define_pi, mailboxes, messages
from tests.support.projects import Project, says

pytestmark = pytest.mark.slow


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with open_desk(Project.create(tmp_path, {"a.txt": "one\n"})) as opened:
        yield opened


async def test_session_begins_with_the_definitions_that_a_list_would_show(desk: Desk) -> None:
    define(desk, "reader", {"*": [{"text": "It says one."}]})
    async with desk.pi() as pi:
        listed = await call(desk, pi, "agent_list")
        messages = desk.mind.heard[0].body["messages"]
        assert isinstance(messages, list)
        shown = messages[0]["content"]
    text = shown if isinstance(shown, str) else "".join(part["text"] for part in shown)
    names = [each["name"] for each in listed["agent_definitions"]]
    assert "reader" in names
    for each in listed["agent_definitions"]:
        assert json.dumps(each, ensure_ascii=False) in text


async def test_session_without_a_person_waits_for_its_agents_and_answers_them(desk: Desk) -> None:
    asks = {"calls": [{"tool": "ask_owner", "arguments": {"question": "One or two?"}}]}
    define(desk, "asker", {"*": [asks, {"text": "Two it is."}]})
    desk.mind.will_say(
        says("agent_delegate", definition="asker", label="mouth", task="Begin."),
        {"text": "I wait."},
        says("agent_reply", agent="mouth", message="Two."),
        {"text": "I wait again."},
    )
    desk.mind.heeds_agents = True
    await desk.once("-p", "Begin.")
    assert [one["details"]["agentLabel"] for one in messages(desk)] == ["mouth"]
    assert "Two it is." in messages(desk)[0]["content"]
    assert len(messages(desk, QUESTION)) == 1


async def test_session_without_a_person_is_told_of_an_agent_that_is_a_pi(desk: Desk) -> None:
    define_pi(desk, "reader")
    desk.mind.inspired = lambda _: {"text": "That is all: one."}
    desk.mind.will_say(says("agent_delegate", definition="reader", label="eye", task="Read."))
    await desk.once("-p", "Begin.")
    (message,) = messages(desk)
    assert "That is all: one." in message["content"]
    assert mailboxes(desk) == []
