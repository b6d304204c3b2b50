import errno
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from agents.herdsman.closing import close
from agents.herdsman.config import change_config
from agents.herdsman.controller import Controller
from agents.herdsman.delegate import delegate
from agents.herdsman.errors import Category, HerdError, invalid
from agents.herdsman.identity import Label
from agents.herdsman.instructions import instructions
from agents.herdsman.mailbox_locks import delegation_lock
from agents.herdsman.runtime import REQUEST
from engine.core.errors import ExternalError, UsageError
from engine.core.spec import ModelChoice, Thinking
from tests.support.deaths import failing_at
from tests.support.herd_desks import MODEL, Desk, open_desk
from tests.support.herd_records import LEAD, session


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with open_desk(tmp_path) as desk:
        yield desk


async def call(controller: Controller, **fields: Any) -> dict[str, Any]:
    stated: dict[str, Any] = {"definition": "scout", "task": "Look.", "label": None, "files": ()}
    return await delegate(controller, **stated | fields)


async def refusal(controller: Controller, category: Category, **fields: Any) -> HerdError:
    with pytest.raises(HerdError) as caught:
        await call(controller, **fields)
    assert caught.value.trouble.category is category
    assert caught.value.trouble.operation == "delegate"
    return caught.value


async def test_an_agent_takes_its_task_and_the_call_returns_before_it_is_done(
    herd_clock: MockClock, desk: Desk
) -> None:
    answer = await call(desk.controller())
    agent = desk.runtime.agent("scout")
    assert answer == {
        "action": "delegate",
        "agent": "scout",
        "definition": "scout",
        "request_id": answer["request_id"],
        "session_id": agent.identity.session,
        "session_path": str(agent.identity.session_file),
        "owner_session_id": LEAD,
        "pane_id": "slot-1",
    }
    assert len(desk.runtime.agents) == 1
    contents = await desk.mailbox("scout").read()
    assert contents is not None
    assert contents.state.active == answer["request_id"]
    assert not contents.has_pending_request
    assert not contents.is_starting
    await desk.settle()
    assert agent.conversation.heard(REQUEST) == ["Look."]


async def test_an_agent_is_started_with_what_its_definition_says(
    herd_clock: MockClock, desk: Desk
) -> None:
    (desk.folder / "rules.md").write_text("Be brief.", "utf-8")
    desk.define(
        "planner", "agents: [scout]\ntools: [read, agent]", f"Plan.\n@{desk.folder}/rules.md"
    )
    await call(desk.controller(), definition="planner", label="one")
    (launch,) = desk.runtime.launches
    assert (launch.birth.owner, launch.birth.workspace) == (LEAD, str(desk.folder))
    assert (launch.birth.label, launch.birth.cwd) == ("one", str(desk.folder))
    assert launch.persona.startswith("Plan.\nBe brief.\n\n# Agents\n")
    assert launch.model == MODEL
    definition = launch.birth.definition
    assert (definition.tools, definition.agents) == (("read",), ("scout",))
    assert launch.birth.session is None


async def test_a_file_of_the_call_is_left_out_of_the_definitions_text(
    herd_clock: MockClock, desk: Desk
) -> None:
    (desk.folder / "rules.md").write_text("Be brief.", "utf-8")
    desk.define("planner", text=f"Plan.\n@{desk.folder}/rules.md")
    await call(desk.controller(), definition="planner", files=["rules.md"])
    agent = desk.runtime.agent("planner")
    assert desk.runtime.launches[0].persona == "Plan.\n"
    await desk.settle()
    (task,) = agent.conversation.heard(REQUEST)
    assert task.count("Be brief.") == 1
    assert task.endswith("Task:\nLook.")


async def test_an_agent_that_delegates_is_told_of_those_that_it_may_use_and_no_others(
    herd_clock: MockClock, desk: Desk
) -> None:
    desk.define("planner", "agents: [scout]")
    desk.define("builder")
    await call(desk.controller(), definition="planner")
    await call(desk.controller(), definition="scout")
    planner, scout = (launch.persona for launch in desk.runtime.launches)
    assert '"name": "scout"' in planner
    assert '"name": "builder"' not in planner
    assert "agent_delegate" not in scout


async def test_whether_an_agent_delegates_is_known_to_its_own_half(
    herd_clock: MockClock, desk: Desk
) -> None:
    desk.define("planner", "agents: [scout]")
    births = []

    def attendant(birth: Any) -> Any:
        births.append(birth)
        return desk.member(birth)

    desk.attendant = attendant
    await call(desk.controller(), definition="planner")
    agent = desk.controller(
        desk.runtime.agent("planner").identity.session,
        is_lead=False,
        allowed=frozenset({"planner"}),
    )
    await call(agent, definition="planner")
    assert [(birth.label, birth.is_delegating) for birth in births] == [
        ("planner", True),
        ("planner-2", False),
    ]
    assert births[1].definition.agents is None
    states = [await desk.state(label) for label in ("planner", "planner-2")]
    assert [state and state.delegates for state in states] == [True, False]


@pytest.mark.parametrize("files", [["gone.txt"], ["."], [""]])
async def test_a_file_that_cannot_be_used_leaves_no_trace(
    herd_clock: MockClock, desk: Desk, files: list[str]
) -> None:
    await refusal(desk.controller(), Category.INVALID_REQUEST, files=files)
    await desk.check_untouched()
    assert desk.runtime.launches == []


@pytest.mark.parametrize(
    "fields",
    [
        {"task": " \n"},
        {"definition": " "},
        {"definition": "nobody"},
        {"label": "Scout"},
        {"label": "a" * 33},
        {"label": ""},
    ],
)
async def test_what_means_nothing_is_refused_before_anything_is_done(
    herd_clock: MockClock, desk: Desk, fields: dict[str, Any]
) -> None:
    error = await refusal(desk.controller(), Category.INVALID_REQUEST, **fields)
    assert error.trouble.next_action
    await desk.check_untouched()


async def test_what_the_definitions_text_names_must_be_there_before_anything_is_done(
    herd_clock: MockClock,
    desk: Desk,
) -> None:
    desk.define("planner", text="@gone.md")
    error = await refusal(desk.controller(), Category.INVALID_REQUEST, definition="planner")
    assert "gone.md" in str(error)
    await desk.check_untouched()


async def test_two_calls_with_one_label_start_one_agent(herd_clock: MockClock, desk: Desk) -> None:
    errors: list[HerdError] = []

    async def one() -> None:
        try:
            await call(desk.controller(), label="mine")
        except HerdError as error:
            errors.append(error)

    desk.runtime.start_takes_s = 1
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one)
        nursery.start_soon(one)
    assert [error.trouble.category for error in errors] == [Category.AGENT_LABEL_EXISTS]
    assert len(desk.runtime.agents) == 1


async def test_calls_without_labels_at_once_get_a_label_each(
    herd_clock: MockClock, desk: Desk
) -> None:
    desk.runtime.start_takes_s = 1
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(call, desk.controller())
    assert await desk.labels() == ["scout", "scout-2", "scout-3"]


async def test_when_every_label_of_a_definition_is_taken_the_call_is_refused(
    herd_clock: MockClock, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agents.herdsman.delegate.label_candidates", lambda _: [Label("scout")])
    await call(desk.controller())
    error = await refusal(desk.controller(), Category.AGENT_LABEL_EXISTS)
    assert "every label" in str(error)


async def test_a_label_stays_taken_while_its_lost_agent_is_not_closed(
    herd_clock: MockClock, desk: Desk
) -> None:
    await call(desk.controller(), label="mine")
    await desk.runtime.kill(desk.runtime.agent("mine"))
    for caller in (desk.controller(), desk.controller(session("another lead"))):
        error = await refusal(caller, Category.AGENT_LABEL_EXISTS, label="mine")
        assert "mine" in str(error)
    assert len(desk.runtime.agents) == 1
    await close(desk.controller(), agent="mine")
    await call(desk.controller(), label="mine")
    assert len(desk.runtime.agents) == 2


async def test_a_mailbox_that_cannot_be_read_keeps_its_label(
    herd_clock: MockClock, desk: Desk
) -> None:
    await call(desk.controller(), label="mine")
    (desk.mailbox("mine").folder / "state.json").write_text("{", "utf-8")
    await refusal(desk.controller(), Category.AGENT_LABEL_EXISTS, label="mine")


async def test_a_definition_that_was_disabled_since_the_session_began_is_refused(
    herd_clock: MockClock,
    desk: Desk,
) -> None:
    controller = desk.controller()
    told = instructions(await controller.roster(), controller.caller)
    assert json.dumps("scout") in told
    assert "enabled" not in told.partition("```json")[2]
    desk.define("scout", "enabled: false")
    error = await refusal(controller, Category.INVALID_REQUEST)
    assert "is disabled" in str(error)
    assert "enabled: true" in error.trouble.next_action
    await desk.check_untouched()


async def test_an_agent_delegates_to_nobody_outside_of_its_list(
    herd_clock: MockClock, desk: Desk
) -> None:
    desk.define("builder")
    agent = desk.controller(session("parent"), is_lead=False, allowed=frozenset({"scout"}))
    error = await refusal(agent, Category.INVALID_REQUEST, definition="builder")
    assert error.trouble.next_action == "use scout"
    await desk.check_untouched()
    await call(desk.controller(), definition="builder")


async def test_an_agent_that_is_being_closed_delegates_no_more(
    herd_clock: MockClock, desk: Desk
) -> None:
    agent = desk.controller(session("parent"), is_lead=False, allowed=frozenset({"scout"}))
    async with delegation_lock(desk.premises, str(desk.folder), session("parent")):
        await refusal(agent, Category.AGENT_BUSY)
    await desk.check_untouched()
    await call(agent)


@pytest.mark.parametrize("fault", [UsageError("no way"), ExternalError("no way")])
async def test_definitions_that_cannot_be_read_are_an_answer(
    herd_clock: MockClock, desk: Desk, fault: Exception
) -> None:
    desk.roster_fault = fault
    assert "no way" in str(await refusal(desk.controller(), Category.INVALID_REQUEST))


async def test_a_faulty_configuration_is_an_answer(herd_clock: MockClock, desk: Desk) -> None:
    desk.premises.root.mkdir(parents=True)
    desk.premises.config_file.write_text('{"colour": 1}', "utf-8")
    assert "colour" in str(await refusal(desk.controller(), Category.INVALID_REQUEST))
    await desk.check_untouched()


async def test_a_task_that_is_too_long_leaves_no_trace(herd_clock: MockClock, desk: Desk) -> None:
    await change_config(desk.premises, {"mailboxPayloadLimitBytes": 1024})
    error = await refusal(desk.controller(), Category.INVALID_REQUEST, task="x" * 1024)
    assert "1,024" in str(error)
    await desk.check_untouched()


async def test_what_the_agent_needs_and_lacks_is_told_before_anything_is_made(
    herd_clock: MockClock, desk: Desk
) -> None:
    desk.runtime.refusal = invalid("there is no model")
    for label in ("mine", None):
        await refusal(desk.controller(), Category.INVALID_REQUEST, label=label)
    await desk.check_untouched()
    desk.runtime.refusal = None
    await call(desk.controller(), label="mine")


async def test_a_mailbox_that_cannot_be_written_is_told_before_anything_is_made(
    herd_clock: MockClock, desk: Desk
) -> None:
    before = trio.current_time()
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with failing_at("herd.mailbox.probing", error=full):
        error = await refusal(desk.controller(), Category.INTERNAL_FAILURE)
    assert str(error) == "cannot make the mailbox of scout: No space left on device"
    assert trio.current_time() == before
    await desk.check_untouched()


async def test_an_agent_that_runs_keeps_its_definition_and_the_next_gets_the_new_one(
    herd_clock: MockClock,
    desk: Desk,
) -> None:
    desk.define("scout", "model: some/one\nthinking: high", "Old.")
    await call(desk.controller())
    desk.define("scout", "model: some/other", "New.")
    await call(desk.controller())
    first, second = desk.runtime.launches
    assert (first.persona, first.birth.definition.model) == ("Old.\n", ("some", "one"))
    assert (second.persona, second.birth.definition.model) == ("New.\n", ("some", "other"))
    assert (await desk.state("scout")) is not None


async def test_a_fresh_agent_has_the_callers_model_where_its_definition_names_none(
    herd_clock: MockClock,
    desk: Desk,
) -> None:
    choice = ModelChoice("p", "m", Thinking.HIGH)
    await call(desk.controller(model=choice))
    assert desk.runtime.launches[0].model == choice
