import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from agents.herdsman.closing import close
from agents.herdsman.config import change_config
from agents.herdsman.continuation import continue_
from agents.herdsman.controller import Controller
from agents.herdsman.delegate import delegate
from agents.herdsman.errors import Category, HerdError, Trouble
from agents.herdsman.identity import Handle, SessionId
from agents.herdsman.runtime import (
    IDENTITY,
    REQUEST,
    RETIRED,
    Launch,
    Lifecycle,
    LiveAgent,
    Slot,
    Started,
)
from engine.core.spec import ModelChoice, Thinking
from tests.support.herd_desks import MODEL, Desk, KeepingRuntime, Puppet, open_desk
from tests.support.herd_records import LEAD, session


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with open_desk(tmp_path) as desk:
        yield desk


async def saved(desk: Desk, definition: str = "scout", **fields: Any) -> SessionId:
    """Return the session of an agent that has ended."""
    stated: dict[str, Any] = {"task": "Look.", "label": None, "files": ()}
    answer = await delegate(desk.controller(), definition=definition, **stated | fields)
    await desk.settle()
    await desk.end(answer["agent"])
    return SessionId(answer["session_id"])


async def call(controller: Controller, name: str, **fields: Any) -> dict[str, Any]:
    stated: dict[str, Any] = {"task": "Go on.", "files": ()}
    return await continue_(controller, session=name, **stated | fields)


async def refusal(
    controller: Controller, name: str, category: Category = Category.INVALID_REQUEST
) -> HerdError:
    with pytest.raises(HerdError) as caught:
        await call(controller, name)
    assert caught.value.trouble.category is category
    assert caught.value.trouble.operation == "continue"
    assert caught.value.trouble.next_action
    return caught.value


def note(file: Path, kind: str, **data: Any) -> None:
    add(file, {"type": "custom", "customType": kind, "data": data})


def add(file: Path, entry: dict[str, Any]) -> None:
    leaf = json.loads(file.read_text("utf-8").splitlines()[-1])["id"]
    with file.open("a", encoding="utf-8") as out:
        out.write(json.dumps({"id": f"x{leaf}", "parentId": leaf, **entry}) + "\n")


async def test_a_saved_session_goes_on_as_a_new_generation_of_the_same_label(
    herd_clock: MockClock, desk: Desk
) -> None:
    name = await saved(desk, label="mine")
    first = desk.runtime.agent("mine")
    answer = await call(desk.controller(), name)
    second = desk.runtime.agent("mine")
    assert answer == {
        "action": "continue",
        "agent": "mine",
        "definition": "scout",
        "request_id": answer["request_id"],
        "session_id": name,
        "session_path": str(desk.sessions[0]),
        "owner_session_id": LEAD,
        "pane_id": "slot-2",
    }
    assert second.identity.session_file == first.identity.session_file
    assert second.identity.of.generation != first.identity.of.generation
    await desk.settle()
    assert second.conversation.heard(REQUEST) == ["Look.", "Go on."]


async def test_a_session_is_continued_by_whoever_may_use_its_definition(
    herd_clock: MockClock, desk: Desk
) -> None:
    name = await saved(desk)
    # Neither its owner nor one who was told of it: the path is all that this session knows.
    answer = await call(desk.controller(session("another lead")), str(desk.sessions[0]))
    assert answer["session_id"] == name
    assert answer["owner_session_id"] == session("another lead")


async def test_a_session_of_an_agents_agent_is_continued_by_the_lead(
    herd_clock: MockClock, desk: Desk
) -> None:
    desk.define("planner", "agents: [scout]")
    parent = await delegate(
        desk.controller(), definition="planner", task="Plan.", label=None, files=()
    )
    agent = desk.controller(
        SessionId(parent["session_id"]), is_lead=False, allowed=frozenset({"scout"})
    )
    child = await delegate(agent, definition="scout", task="Look.", label=None, files=())
    await desk.settle()
    await desk.end("scout")
    await desk.end("planner")
    answer = await call(desk.controller(), child["session_id"])
    assert answer["owner_session_id"] == LEAD


async def test_one_session_named_in_two_ways_at_once_is_started_once(
    herd_clock: MockClock, desk: Desk
) -> None:
    name = await saved(desk)
    link = desk.folder / "link"
    link.symlink_to(desk.sessions[0].parent)
    errors: list[HerdError] = []

    async def one(named: str) -> None:
        try:
            await call(desk.controller(), named)
        except HerdError as error:
            errors.append(error)

    desk.runtime.start_takes_s = 1
    async with trio.open_nursery() as nursery:
        for named in (name, str(desk.sessions[0]), f"link/{desk.sessions[0].name}"):
            nursery.start_soon(one, named)
    assert [error.trouble.category for error in errors] == [Category.AGENT_BUSY] * 2
    assert len(desk.runtime.agents) == 2


async def test_a_lost_agent_keeps_its_session_until_it_is_closed(
    herd_clock: MockClock, desk: Desk
) -> None:
    answer = await delegate(
        desk.controller(), definition="scout", task="Look.", label="mine", files=()
    )
    await desk.settle()
    await desk.runtime.kill(desk.runtime.agent("mine"))
    error = await refusal(desk.controller(), answer["session_id"], Category.AGENT_BUSY)
    assert "the agent mine" in str(error)
    await close(desk.controller(), agent="mine")
    await call(desk.controller(), answer["session_id"])


async def test_an_agent_that_is_there_takes_no_second_task(
    herd_clock: MockClock, desk: Desk
) -> None:
    answer = await delegate(
        desk.controller(), definition="scout", task="Look.", label="mine", files=()
    )
    other = desk.controller(session("another lead"), workspace=str(desk.home))
    error = await refusal(other, answer["session_id"], Category.AGENT_BUSY)
    assert "another session" in str(error)
    assert len(desk.runtime.agents) == 1


async def test_a_session_that_something_unrecorded_leads_is_busy(
    herd_clock: MockClock, desk: Desk
) -> None:
    name = await saved(desk)

    class Haunted:
        async def inventory(self, _: Any) -> Any:
            found = await desk.runtime.inventory([])
            agent = LiveAgent(str(desk.folder), Handle("ghost"), name, "/gone", Lifecycle.IDLE)
            slots = (Slot(Handle("ghost"), name), Slot(Handle("other")), *places)
            return type(found)((*found.agents, agent), slots)

    places: tuple[Slot, ...] = ()
    controller = desk.controller()
    object.__setattr__(controller, "runtime", Haunted())
    await refusal(controller, name, Category.AGENT_BUSY)
    places = (Slot(Handle("elsewhere"), name),)
    error = await refusal(controller, name, Category.TARGET_AMBIGUOUS)
    assert "2 places" in str(error)


async def test_when_nobody_can_tell_what_is_there_nothing_is_started(
    herd_clock: MockClock, desk: Desk
) -> None:
    name = await saved(desk)
    desk.runtime.inventory_fault = "no answer"
    await refusal(desk.controller(), name, Category.INTERNAL_FAILURE)
    assert len(desk.runtime.agents) == 1


async def test_a_definition_that_is_not_there_any_more_has_no_substitute(
    herd_clock: MockClock, desk: Desk
) -> None:
    name = await saved(desk)
    desk.define("explorer")
    desk.forget("scout")
    assert '"scout" is not there' in str(await refusal(desk.controller(), name))
    desk.define("scout", "enabled: false")
    assert "disabled" in str(await refusal(desk.controller(), name))
    desk.define("scout")
    agent = desk.controller(session("parent"), is_lead=False, allowed=frozenset({"explorer"}))
    assert "may use" in str(await refusal(agent, name))


async def test_a_session_that_does_not_tell_where_it_worked_is_named(
    herd_clock: MockClock, desk: Desk
) -> None:
    name = await saved(desk)
    file = desk.sessions[0]
    header, *rest = file.read_text("utf-8").splitlines(keepends=True)
    header = json.dumps(json.loads(header) | {"cwd": ""}) + "\n"
    file.write_text("".join([header, *rest]), "utf-8")
    assert str(file) in str(await refusal(desk.controller(), name))


async def test_a_session_whose_folder_is_gone_is_refused(
    herd_clock: MockClock, desk: Desk, tmp_path: Path
) -> None:
    (tmp_path / "away").mkdir()
    controller = desk.controller(cwd=str(tmp_path / "away"))
    answer = await delegate(controller, definition="scout", task="x", label=None, files=())
    await desk.settle()
    await desk.end("scout")
    (tmp_path / "away").rmdir()
    assert "no folder now" in str(await refusal(desk.controller(), answer["session_id"]))


async def test_a_copied_session_is_not_an_agents(herd_clock: MockClock, desk: Desk) -> None:
    name = await saved(desk)
    file = desk.sessions[0]
    copied = session("copy")
    copy = file.with_name(f"{copied}.jsonl")
    copy.write_text(file.read_text("utf-8").replace(name, copied, 1), "utf-8")
    for named in (copied, str(copy)):
        assert "not the session of a managed agent" in str(await refusal(desk.controller(), named))


async def test_a_part_of_an_id_names_no_session(herd_clock: MockClock, desk: Desk) -> None:
    name = await saved(desk)
    assert "full id" in str(await refusal(desk.controller(), name[:13]))


async def test_a_session_cannot_continue_itself(herd_clock: MockClock, desk: Desk) -> None:
    name = await saved(desk)
    assert "itself" in str(await refusal(desk.controller(name), name))


async def test_an_occupied_label_is_not_replaced_by_another_one(
    herd_clock: MockClock, desk: Desk
) -> None:
    name = await saved(desk, label="mine")
    await delegate(desk.controller(), definition="scout", task="x", label="mine", files=())
    await refusal(desk.controller(), name, Category.AGENT_LABEL_EXISTS)
    assert await desk.labels() == ["mine"]


async def test_a_retired_session_is_not_continued_while_that_is_set(
    herd_clock: MockClock, desk: Desk
) -> None:
    name = await saved(desk)
    note(desk.sessions[0], RETIRED, session=name)
    error = await refusal(desk.controller(), name)
    assert "retired" in str(error)
    assert "fresh agent" in error.trouble.next_action
    await change_config(desk.premises, {"contextRetirement": False})
    await call(desk.controller(), name)
    await desk.end("scout")
    await change_config(desk.premises, {"contextRetirement": None})
    assert "retired" in str(await refusal(desk.controller(), name))


async def test_the_mark_of_another_session_retires_nobody(
    herd_clock: MockClock, desk: Desk
) -> None:
    name = await saved(desk)
    note(desk.sessions[0], RETIRED, session=session("another"))
    await call(desk.controller(), name)


async def test_what_contradicts_itself_about_whose_it_is_is_refused(
    herd_clock: MockClock, desk: Desk
) -> None:
    name = await saved(desk)
    note(desk.sessions[0], IDENTITY, session=name, definition="scout", label="other")
    assert "two things" in str(await refusal(desk.controller(), name))


async def test_the_definition_that_holds_now_is_used_with_the_sessions_own_model(
    herd_clock: MockClock,
    desk: Desk,
) -> None:
    name = await saved(desk)
    add(desk.sessions[0], {"type": "model_change", "provider": "old", "modelId": "one"})
    add(desk.sessions[0], {"type": "thinking_level_change", "thinkingLevel": "high"})
    desk.define("scout", "tools: [read]", "New.")
    await call(desk.controller(), name)
    launch = desk.runtime.launches[-1]
    assert (launch.persona, launch.birth.definition.tools) == ("New.\n", ("read",))
    assert launch.model == ModelChoice("old", "one", Thinking.HIGH)
    assert (launch.birth.definition.model, launch.birth.definition.thinking) == (None, None)
    assert launch.birth.session is not None
    assert launch.birth.session.session == name


async def test_what_the_definition_states_goes_before_what_the_session_had(
    herd_clock: MockClock, desk: Desk
) -> None:
    name = await saved(desk)
    add(desk.sessions[0], {"type": "model_change", "provider": "old", "modelId": "one"})
    desk.define("scout", "thinking: low")
    await call(desk.controller(), name)
    launch = desk.runtime.launches[-1]
    # Whoever runs the agent takes each from the definition first.
    assert launch.birth.definition.thinking is Thinking.LOW
    assert launch.model == ModelChoice("old", "one", Thinking.OFF)


async def test_a_session_that_tells_no_model_goes_on_with_the_callers(
    herd_clock: MockClock, desk: Desk
) -> None:
    name = await saved(desk)
    await call(desk.controller(), name)
    assert desk.runtime.launches[-1].model == MODEL


async def test_an_agent_continues_only_what_worked_where_it_does(
    herd_clock: MockClock, desk: Desk, tmp_path: Path
) -> None:
    name = await saved(desk)
    (tmp_path / "away").mkdir()
    agent: dict[str, Any] = {"is_lead": False, "allowed": frozenset({"scout"})}
    elsewhere = desk.controller(session("parent"), cwd=str(tmp_path / "away"), **agent)
    assert "not where this agent does" in str(await refusal(elsewhere, name))
    await call(desk.controller(session("parent"), **agent), name)


async def test_a_projects_own_definition_is_used_in_the_project_only(
    herd_clock: MockClock, desk: Desk, tmp_path: Path
) -> None:
    desk.define("local", at="project")
    (tmp_path / "away").mkdir()
    controller = desk.controller(cwd=str(tmp_path / "away"))
    answer = await delegate(controller, definition="local", task="x", label=None, files=())
    await desk.settle()
    await desk.end("local")
    error = await refusal(desk.controller(), answer["session_id"])
    assert "outside of it" in str(error)
    await call(desk.controller(), await saved(desk, "local", label="inside"))


async def test_a_start_that_fails_leaves_the_session_as_it_was(
    herd_clock: MockClock, desk: Desk
) -> None:
    name = await saved(desk, label="mine")
    before = desk.sessions[0].read_bytes()
    fault = HerdError(Trouble(Category.PANE_NOT_READY, "it did not come up"))
    desk.runtime.start_fault = fault
    with pytest.raises(HerdError, match="did not come up") as caught:
        await call(desk.controller(), name)
    assert caught.value.trouble.rollback_occurred
    assert desk.sessions[0].read_bytes() == before
    assert await desk.labels() == []
    desk.runtime.start_fault = None
    await call(desk.controller(), name)


async def test_what_a_failing_agent_noted_in_its_session_is_taken_back(
    herd_clock: MockClock, desk: Desk
) -> None:
    name = await saved(desk, label="mine")
    file = desk.sessions[0]
    before = file.read_bytes()

    class Noting(Puppet):
        async def serve(self, conversation: Any, started: Any) -> None:
            await conversation.append("model", {"a": 1})
            await super().serve(conversation, started)

    desk.attendant = lambda birth: Noting(desk=desk, birth=birth, dies=True)
    with pytest.raises(HerdError, match="has ended"):
        await call(desk.controller(), name)
    assert file.read_bytes() == before
    assert await desk.labels() == []


async def test_an_agent_in_another_session_than_it_was_started_for_is_ended(
    herd_clock: MockClock, desk: Desk
) -> None:
    name = await saved(desk, label="mine")
    kept = desk.sessions[0]
    before = kept.read_bytes()

    class Astray(KeepingRuntime):
        async def start(self, launch: Launch) -> Started:
            return await super().start(replace(launch, birth=replace(launch.birth, session=None)))

    async with trio.open_nursery() as nursery:
        controller = desk.controller()
        object.__setattr__(controller, "runtime", Astray(desk.agent_dir / "sessions", nursery))
        with pytest.raises(HerdError, match="another session") as caught:
            await call(controller, name)
        nursery.cancel_scope.cancel()
    trouble = caught.value.trouble
    assert trouble.category is Category.TARGET_AMBIGUOUS
    assert trouble.rollback_occurred
    assert (trouble.ids["agent"], trouble.details["stage"]) == ("mine", "start")
    assert kept.read_bytes() == before
    assert await desk.labels() == []


async def test_where_paths_cannot_be_compared_nothing_is_started(
    herd_clock: MockClock, desk: Desk
) -> None:
    name = await saved(desk)
    kept = desk.sessions[0]
    await delegate(desk.controller(), definition="scout", task="x", label="other", files=())
    await desk.runtime.kill(desk.runtime.agent("other"))
    (other,) = set(desk.sessions) - {kept}
    other.unlink()
    other.symlink_to(other)
    error = await refusal(desk.controller(), name, Category.INTERNAL_FAILURE)
    assert "cannot be compared" in str(error)
    assert len(desk.runtime.agents) == 2
