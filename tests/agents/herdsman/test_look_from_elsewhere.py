"""An owner's agents stay its own when it stands, or is said to stand, in another workspace."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from agents.herdsman.attention import Attention
from agents.herdsman.closing import close
from agents.herdsman.controller import Controller
from agents.herdsman.controls import steer
from agents.herdsman.errors import Category, HerdError
from agents.herdsman.identity import Correlation, GenerationId, Handle, Label, RequestId, SessionId
from agents.herdsman.look import Look, look
from agents.herdsman.reads import inspect, list_agents, transcript
from agents.herdsman.record import Result, State
from agents.herdsman.runtime import Lifecycle
from agents.herdsman.startup import check_free
from tests.support.herd_owners import TASK, Stage
from tests.support.herd_records import LEAD, NOW_MS, session, uid
from tests.support.herd_told import Book, keeping, telling

OTHER_TASK = RequestId(uid("another task"))


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage.at(tmp_path)


@pytest.fixture
def elsewhere(stage: Stage) -> Stage:
    """The same herd, where its owner stands now."""
    folder = stage.folder.parent / "elsewhere"
    folder.mkdir()
    return replace(stage, folder=folder)


@pytest.fixture
def moved(elsewhere: Stage) -> Controller:
    """The owner of all agents, in the workspace where it stands now."""
    return elsewhere.controller()


async def add_twin(
    elsewhere: Stage, owner: SessionId = LEAD, label: str = "scout", **more: Any
) -> State:
    """Add an agent where the owner stands now whose label another one has as well."""
    of = Correlation(
        GenerationId(uid("generation twin")),
        owner,
        elsewhere.workspace,
        Label(label),
        Handle("place-twin"),
    )
    return await elsewhere.add(label, of=of, session=session("twin"), **more)


async def seen_in(stage: Stage) -> Look:
    return await look(stage.premises, stage.runtime)


async def labels(controller: Controller) -> list[tuple[str, str | None]]:
    """Return what an owner is shown, each with the agent that it works for."""
    answer = await list_agents(controller)
    return [(one["agent"], one.get("parent_label")) for one in answer["agents"]]


async def test_lead_sees_its_own_agents_of_every_workspace_first(
    stage: Stage, elsewhere: Stage, moved: Controller
) -> None:
    await stage.add_parent("boss", "below")
    await elsewhere.add_parent("chief", "aide")
    await stage.add("zoe")
    expected = [
        ("boss", None),
        ("chief", None),
        ("zoe", None),
        ("aide", "chief"),
        ("below", "boss"),
    ]
    assert await labels(moved) == await labels(stage.controller()) == expected


async def test_lead_sees_no_other_leads_agents_wherever_they_are(
    stage: Stage, elsewhere: Stage, moved: Controller
) -> None:
    await stage.add("mine")
    for place, label in ((stage, "theirs"), (elsewhere, "others")):
        await place.add(label, owner=session("another"))
        await place.add(f"{label}-below", owner=session(label))
    assert await labels(moved) == [("mine", None)]


async def test_agent_sees_its_own_agents_of_its_own_workspace_alone(
    stage: Stage, elsewhere: Stage
) -> None:
    await stage.add_parent("boss", "below")
    boss = session("boss")
    assert await labels(stage.controller(boss, is_lead=False)) == [("below", None)]
    assert await labels(elsewhere.controller(boss, is_lead=False)) == []


async def test_session_that_is_an_agents_in_a_workspace_leads_nobody_there(
    stage: Stage, elsewhere: Stage, moved: Controller
) -> None:
    await stage.add("twin", owner=session("another"), session=LEAD)
    await stage.add("doubtful")
    await elsewhere.add("mine")
    assert await labels(moved) == [("mine", None)]


async def test_agents_of_an_equal_label_are_told_apart_by_their_workspaces(
    stage: Stage, elsewhere: Stage, moved: Controller
) -> None:
    here, there = await add_twin(elsewhere), await stage.add("scout")
    seen = await seen_in(stage)
    with pytest.raises(HerdError) as caught:
        seen.find(moved.caller, "scout")
    assert caught.value.trouble.category is Category.TARGET_AMBIGUOUS
    for state in (here, there):
        assert state.of.workspace in caught.value.trouble.message
        found = seen.find(moved.caller, "scout", workspace=state.of.workspace)
        assert found.contents.state == state
    with pytest.raises(HerdError) as missing:
        seen.find(moved.caller, "scout", workspace="/nowhere")
    assert missing.value.trouble.category is Category.TARGET_NOT_FOUND


async def test_label_of_an_agent_elsewhere_is_taken_for_its_owner_alone(
    stage: Stage, elsewhere: Stage, moved: Controller
) -> None:
    await stage.add("scout")
    with pytest.raises(HerdError, match=stage.workspace) as caught:
        await check_free(moved, Label("scout"))
    assert caught.value.trouble.category is Category.AGENT_LABEL_EXISTS
    await check_free(moved, Label("other"))
    await check_free(elsewhere.controller(session("another")), Label("scout"))
    await check_free(elsewhere.controller(LEAD, is_lead=False), Label("scout"))


async def test_label_is_not_taken_for_free_while_mailboxes_cannot_be_read(
    stage: Stage, moved: Controller
) -> None:
    stage.premises.mailboxes.parent.mkdir(parents=True, exist_ok=True)
    stage.premises.mailboxes.touch()
    with pytest.raises(HerdError) as caught:
        await check_free(moved, Label("scout"))
    assert caught.value.trouble.category is Category.INTERNAL_FAILURE


async def test_closing_takes_the_agent_of_its_own_workspace_and_no_other_of_its_label(
    stage: Stage, elsewhere: Stage, moved: Controller
) -> None:
    await stage.add_parent("boss", "below")
    theirs = await add_twin(elsewhere, session("another"), "boss")
    assert await close(moved, agent="boss") == {"action": "close", "agent": "boss"}
    assert stage.runtime.stopped == ["below", "boss"]
    assert [one.state for one in (await seen_in(stage)).scan.contents] == [theirs]


async def test_controls_reach_the_agent_where_its_mailbox_is(
    stage: Stage, elsewhere: Stage, moved: Controller
) -> None:
    await stage.add("scout")
    await add_twin(elsewhere, session("another"))
    async with stage.answering("scout") as answered:
        await steer(moved, agent="scout", message="go left", files=())
    assert [one.of.workspace for one in answered] == [stage.workspace]


async def test_agent_can_be_looked_at_from_elsewhere(stage: Stage, moved: Controller) -> None:
    state = await stage.add("scout")
    stage.runtime.output = ["a line"]
    stage.session_file("scout").write_text(
        f'{{"type":"session","version":3,"id":"{state.session}","timestamp":'
        f'"2024-01-01T00:00:00.000Z","cwd":"{state.cwd}"}}\n'
    )
    assert (await inspect(moved, agent="scout"))["recent_output"] == "a line"
    assert (await transcript(moved, agent="scout"))["session_id"] == state.session


async def test_owner_is_told_of_an_agent_elsewhere_that_is_lost(
    stage: Stage, moved: Controller
) -> None:
    book = Book()
    await stage.add("scout", lifecycle=None)
    attention = Attention(telling(moved, book))
    await attention.attend(await seen_in(stage), book.entries)
    assert [message.details["agent"] for message in book.told] == ["scout"]


async def test_results_of_every_workspace_are_delivered_and_cleared_up(
    herd_clock: MockClock, stage: Stage, elsewhere: Stage, moved: Controller
) -> None:
    book = Book()
    await stage.add("scout")
    await stage.finish("scout")
    await stage.change("scout", active=None, completed=TASK)
    twin = await add_twin(elsewhere, active=None, completed=OTHER_TASK)
    await elsewhere.mailbox("scout").write_result(
        Result(twin.of, OTHER_TASK, "completed", NOW_MS, "done as well")
    )
    await stage.add("worker", lifecycle=Lifecycle.WORKING)
    async with keeping(telling(moved, book)):
        await trio.sleep(10)
    assert sorted(message.text.split("\n\n")[2] for message in book.results) == [
        "done",
        "done as well",
    ]
    left = (await seen_in(stage)).scan.contents
    assert [one.state.of.label for one in left] == ["worker"]
