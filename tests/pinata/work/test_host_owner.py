"""A session as the owner of agents, as its host reaches it over whoever is attached."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from agents.herdsman.identity import SessionId
from agents.herdsman.owner import OwnerAwayError
from agents.herdsman.runtime import RESULT, Entry, Message
from engine.core.errors import ExternalError
from engine.records.host_owner import EnteredFrame, EntryField, HistoryFrame, IdleFrame
from pinata.work.host_owner import KINDS, LeadSession, OwnerFrame

MESSAGE = Message(RESULT, "It is done.", {"delivery": "g/r"})


class Client:
    """A client that answers as a test has it."""

    def __init__(self, lead: LeadSession, answer: Callable[[int], OwnerFrame] | None) -> None:
        self.heard: list[Mapping[str, Any]] = []
        self._lead = lead
        self._answer = answer

    async def send(self, frame: Mapping[str, Any]) -> bool:
        await trio.lowlevel.checkpoint()
        self.heard.append(frame)
        if self._answer is not None:
            self._lead.told(self._answer(frame["request"]))
        return True


@pytest.fixture
def lead() -> LeadSession:
    return LeadSession(SessionId("s1"))


def entered(number: int, *, entered: bool = True, fault: str | None = None) -> EnteredFrame:
    return EnteredFrame(type="entered", request=number, entered=entered, fault=fault)


async def test_message_is_told_once_the_file_of_the_session_holds_it(lead: LeadSession) -> None:
    client = Client(lead, entered)
    with lead.attached(client.send, owns_agents=True):
        assert await lead.tell("g/r", MESSAGE, only_if_idle=True)
    assert client.heard == [
        {
            "type": "enter",
            "request": 1,
            "kind": RESULT,
            "details": {"delivery": "g/r"},
            "text": "It is done.",
            "onlyIfIdle": True,
        }
    ]


async def test_busy_session_takes_nothing_that_is_for_an_idle_one(lead: LeadSession) -> None:
    client = Client(lead, partial(entered, entered=False))
    with lead.attached(client.send, owns_agents=True):
        assert not await lead.tell("g/r", MESSAGE, only_if_idle=True)


async def test_history_tells_what_lies_on_the_branch(lead: LeadSession) -> None:
    def answer(number: int) -> HistoryFrame:
        told = {"kind": RESULT, "details": {"n": 1}, "onBranch": False}
        field = EntryField.model_validate(told)
        return HistoryFrame(type="history", request=number, entries=[field])

    client = Client(lead, answer)
    with lead.attached(client.send, owns_agents=True):
        assert await lead.entries() == [Entry(RESULT, {"n": 1}, on_branch=False)]
    assert client.heard[0]["kinds"] == list(KINDS)


async def test_entry_for_programs_alone_has_no_text(lead: LeadSession) -> None:
    client = Client(lead, entered)
    with lead.attached(client.send, owns_agents=True):
        await lead.append("kind", {"n": 1})
    assert client.heard[0]["text"] is None


async def test_nobody_is_asked_who_is_not_there_or_knows_of_no_agents(lead: LeadSession) -> None:
    client = Client(lead, None)
    with lead.attached(client.send, owns_agents=False), pytest.raises(OwnerAwayError):
        await lead.entries()
    assert not lead.is_idle
    with pytest.raises(OwnerAwayError):
        await lead.append("kind", {})
    assert client.heard == []


async def test_whoever_asked_a_client_that_leaves_hears_that_the_owner_is_away(
    lead: LeadSession, nursery: trio.Nursery
) -> None:
    away: list[str] = []

    async def ask() -> None:
        try:
            await lead.tell("g/r", MESSAGE, only_if_idle=False)
        except OwnerAwayError:
            away.append("away")

    with lead.attached(Client(lead, None).send, owns_agents=True):
        nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        assert away == []
    await wait_all_tasks_blocked()
    assert away == ["away"]


async def test_answer_of_the_client_before_means_nothing_to_the_next(lead: LeadSession) -> None:
    first, second = Client(lead, None), Client(lead, entered)
    with lead.attached(first.send, owns_agents=True), trio.move_on_after(0):
        await lead.entries()
    with lead.attached(second.send, owns_agents=True):
        lead.told(entered(1))
        assert await lead.tell("g/r", MESSAGE, only_if_idle=False)
    assert second.heard[0]["request"] == 2


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (partial(entered, fault="it is read-only"), "it is read-only"),
        (lambda number: HistoryFrame(type="history", request=number), "something else"),
    ],
    ids=["a fault", "the answer to another question"],
)
async def test_what_a_client_cannot_do_is_said(
    lead: LeadSession, answer: Callable[[int], OwnerFrame], says: str
) -> None:
    with (
        lead.attached(Client(lead, answer).send, owns_agents=True),
        pytest.raises(ExternalError, match=says),
    ):
        await lead.append("kind", {})


async def test_becoming_idle_is_a_change_and_so_is_attaching(
    lead: LeadSession, nursery: trio.Nursery
) -> None:
    seen: list[bool] = []

    async def watch() -> None:
        while True:
            await lead.wait_changed()
            seen.append(lead.is_idle)

    nursery.start_soon(watch)
    await wait_all_tasks_blocked()
    with lead.attached(Client(lead, None).send, owns_agents=True):
        await wait_all_tasks_blocked()
        lead.told(IdleFrame(type="idle", idle=True))
        await wait_all_tasks_blocked()
        lead.told(IdleFrame(type="idle", idle=False))
        await wait_all_tasks_blocked()
    assert seen == [False, True, False]
    lead.told(IdleFrame(type="idle", idle=True))
    assert not lead.is_idle
