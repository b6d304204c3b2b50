"""Tests of `agents.herdsman.closing`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from trio.testing import MockClock

from agents.herdsman.closing import clear_away, close, finish_closing
from agents.herdsman.controller import Controller
from agents.herdsman.controls import reply
from agents.herdsman.errors import Category, HerdError, not_found
from agents.herdsman.identity import GenerationId, Identity
from agents.herdsman.look import look
from agents.herdsman.mailbox import Mailbox
from agents.herdsman.mailbox_locks import delegation_lock
from agents.herdsman.reads import list_agents
from agents.herdsman.record import Ask, Failure, FailureCode, Result
from agents.herdsman.runtime import Lifecycle
from tests.support.deaths import Died, dying_at, failing_at, passed_points
from tests.support.herd_owners import TASK, Stage
from tests.support.herd_records import NOW_MS, ask_id, request, session, uid

# Where the disk breaks after all but the state of a mailbox is gone.
BROKEN = "herd.mailbox.emptied"


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage.at(tmp_path)


async def refused(
    stage: Stage, agent: str = "scout", controller: Controller | None = None
) -> HerdError:
    with pytest.raises(HerdError) as caught:
        await close(controller or stage.controller(), agent=agent)
    return caught.value


async def labels(stage: Stage) -> set[str]:
    """Return whose mailboxes there are."""
    return {one.state.of.label for one in (await look(stage.premises, stage.runtime)).scan.contents}


async def tools(stage: Stage, agent: str = "scout") -> list[str]:
    answer = await list_agents(stage.controller())
    [record] = [each for each in answer["agents"] if each.get("agent") == agent]
    return list(record["available_tools"])


async def test_an_agent_that_is_closed_leaves_its_session_and_a_free_label(stage: Stage) -> None:
    await stage.add("scout")
    session_file = stage.session_file("scout")
    session_file.write_text("saved")
    assert await close(stage.controller(), agent="scout") == {"action": "close", "agent": "scout"}
    assert stage.runtime.stopped == ["scout"]
    assert not stage.mailbox("scout").folder.exists()
    assert not await stage.mailbox("scout").is_occupied()
    assert session_file.read_text() == "saved"


async def test_who_works_for_an_agent_is_closed_before_it(stage: Stage) -> None:
    await stage.add_parent("lead-dev", "one", "two")
    await stage.add("scout")
    await close(stage.controller(), agent="lead-dev")
    assert stage.runtime.stopped[2:] == ["lead-dev"]
    assert set(stage.runtime.stopped[:2]) == {"one", "two"}
    assert await labels(stage) == {"scout"}


async def test_an_agent_of_somebody_else_is_not_closed(stage: Stage) -> None:
    await stage.add("scout", owner=session("another lead"))
    await stage.add_parent("lead-dev", "worker")
    for agent in ("scout", "worker", "nobody"):
        assert (await refused(stage, agent)).trouble.category is Category.TARGET_NOT_FOUND
    assert stage.runtime.stopped == []
    assert await labels(stage) == {"scout", "lead-dev", "worker"}


async def test_a_lost_agent_leaves_only_records_to_remove(stage: Stage) -> None:
    await stage.add("scout", lifecycle=None)
    await close(stage.controller(), agent="scout")
    assert stage.runtime.stopped == []
    assert await labels(stage) == set()


async def test_an_agent_that_cannot_be_told_is_not_closed(stage: Stage) -> None:
    scout = await stage.add("scout")
    agent = stage.runtime.agents[scout.handle]
    stage.runtime.agents[scout.handle] = replace(agent, session=session("another"))
    assert await tools(stage) == []
    assert (await refused(stage)).trouble.category is Category.TARGET_AMBIGUOUS
    stage.runtime.fault = "no answer"
    assert (await refused(stage)).trouble.category is Category.INTERNAL_FAILURE
    stage.runtime.fault = None
    assert await labels(stage) == {"scout"}


async def test_a_question_goes_with_its_agent(stage: Stage) -> None:
    scout = await stage.add("scout", lifecycle=Lifecycle.IDLE)
    question = Ask(scout.of, ask_id("which"), TASK, scout.session, "Which one?", NOW_MS)
    await stage.mailbox("scout").write_ask(question)
    await stage.change("scout", pending_ask=question.ask)
    await close(stage.controller(), agent="scout")
    with pytest.raises(HerdError) as caught:
        await reply(stage.controller(), agent="scout", message="the left one", files=())
    assert caught.value.trouble.category is Category.TARGET_NOT_FOUND


async def test_a_result_that_appears_while_the_agent_is_stopped_is_kept(stage: Stage) -> None:
    await stage.add("scout")

    async def finish(identity: Identity) -> None:
        await stage.finish("scout")

    stage.runtime.while_stopping = finish
    error = await refused(stage)
    assert error.trouble.category is Category.TARGET_AMBIGUOUS
    result = await stage.mailbox("scout").read_result(TASK)
    assert result is not None
    assert result.text == "done"
    assert await labels(stage) == {"scout"}


async def test_a_result_that_appears_after_the_list_is_not_discarded(stage: Stage) -> None:
    await stage.add("scout")
    assert "agent_close" in await tools(stage)
    await stage.finish("scout")
    assert (await refused(stage)).trouble.category is Category.TARGET_AMBIGUOUS
    assert stage.runtime.stopped == []
    assert "agent_close" not in await tools(stage)


async def test_a_mailbox_that_cannot_be_read_keeps_a_lead_from_closing(stage: Stage) -> None:
    await stage.add_parent("lead-dev", "worker")
    damaged = stage.premises.mailboxes / ("0" * 32)
    damaged.mkdir()
    (damaged / "state.json").write_text("{}")
    assert "agent_close" not in await tools(stage, "lead-dev")
    assert (await refused(stage, "lead-dev")).trouble.category is Category.TARGET_AMBIGUOUS
    parent = stage.controller(session("lead-dev"), is_lead=False)
    await close(parent, agent="worker")
    assert stage.runtime.stopped == ["worker"]


async def test_an_agent_whose_mailbox_somebody_works_on_is_not_closed(
    stage: Stage, herd_clock: MockClock
) -> None:
    await stage.add("scout")
    async with stage.mailbox("scout").claim(patience_s=0):
        assert (await refused(stage)).trouble.category is Category.AGENT_BUSY
    assert stage.runtime.stopped == []


async def test_an_agent_that_is_telling_its_own_ones_is_not_closed(stage: Stage) -> None:
    await stage.add_parent("lead-dev", "worker")
    async with delegation_lock(stage.premises, stage.workspace, session("lead-dev")):
        assert (await refused(stage, "lead-dev")).trouble.category is Category.AGENT_BUSY
    assert stage.runtime.stopped == []


async def test_a_delegating_agent_that_is_closed_closes_nobody(stage: Stage) -> None:
    await stage.add_parent("lead-dev", "worker")
    parent = stage.controller(session("lead-dev"), is_lead=False)
    async with delegation_lock(stage.premises, stage.workspace, session("lead-dev")):
        error = await refused(stage, "worker", parent)
    assert error.trouble.category is Category.AGENT_BUSY
    assert stage.runtime.stopped == []


async def test_records_that_stay_are_told_and_a_later_close_removes_them(stage: Stage) -> None:
    await stage.add("scout")
    with failing_at(BROKEN):
        answer = await close(stage.controller(), agent="scout")
    error = answer.pop("cleanup_error")
    assert answer == {"action": "close", "agent": "scout"}
    assert "Input/output error" in error
    [record] = (await list_agents(stage.controller()))["agents"]
    assert (record["state"], record["cleanup_error"]) == ("lost", error)
    assert "agent_close" in record["available_tools"]
    assert await close(stage.controller(), agent="scout") == {"action": "close", "agent": "scout"}
    assert stage.runtime.stopped == ["scout"]
    assert await labels(stage) == set()
    assert stage.endings.cleanup_errors == {}


async def test_records_that_stay_are_removed_by_a_later_look(
    stage: Stage, herd_clock: MockClock
) -> None:
    await stage.add("scout")
    await stage.add("writer")
    with failing_at(BROKEN, times=2):
        await close(stage.controller(), agent="scout")
        await finish_closing(stage.controller())
    assert len(stage.endings.cleanup_errors) == 1
    stage.endings.cleanup_errors[GenerationId(uid("long gone"))] = "it was there once"
    async with stage.mailbox("scout").claim(patience_s=0):
        await finish_closing(stage.controller())
    assert len(stage.endings.cleanup_errors) == 1
    await finish_closing(stage.controller())
    await finish_closing(stage.controller())
    assert stage.endings.cleanup_errors == {}
    assert await labels(stage) == {"writer"}


async def test_an_agent_that_is_seen_after_its_end_keeps_its_records(stage: Stage) -> None:
    await stage.add("scout")
    stage.runtime.outlives_stop.add("scout")
    assert (await refused(stage)).trouble.category is Category.INTERNAL_FAILURE
    assert await labels(stage) == {"scout"}


async def test_an_agent_that_cannot_be_stopped_keeps_its_records(stage: Stage) -> None:
    await stage.add("scout")
    stage.runtime.stop_fault = not_found("another one is there")
    error = await refused(stage)
    assert "another one is there" in str(error)
    assert error.trouble.operation == "close"
    assert await labels(stage) == {"scout"}


async def test_a_failure_below_keeps_the_agent_and_names_both(stage: Stage) -> None:
    await stage.add_parent("lead-dev", "one", "two", "zed")
    stage.runtime.outlives_stop.add("two")
    error = await refused(stage, "lead-dev")
    worker = await stage.mailbox("two").read_state()
    assert worker is not None
    told = error.trouble.as_fields()
    assert told["operation"] == "close"
    assert told["ids"] == {
        "agent": "two",
        "pane_id": worker.handle,
        "session_id": worker.session,
    }
    assert told["details"]["parent"] == "lead-dev"
    # What was closed stays closed; who is closed first does not matter.
    closed = set(told["details"].get("closed", ()))
    assert await labels(stage) == {"lead-dev", "one", "two", "zed"} - closed
    assert "lead-dev" not in stage.runtime.stopped


async def test_records_below_that_stay_keep_the_agent(stage: Stage) -> None:
    await stage.add_parent("lead-dev", "worker")
    with failing_at(BROKEN):
        error = await refused(stage, "lead-dev")
    assert error.trouble.category is Category.INTERNAL_FAILURE
    assert error.trouble.ids["agent"] == "worker"
    assert stage.runtime.stopped == ["worker"]
    await close(stage.controller(), agent="lead-dev")
    assert stage.runtime.stopped == ["worker", "lead-dev"]
    assert await labels(stage) == set()


async def test_a_result_below_keeps_the_agent(stage: Stage) -> None:
    await stage.add_parent("lead-dev", "worker")
    await stage.finish("worker")
    assert "agent_close" not in await tools(stage, "lead-dev")
    assert (await refused(stage, "lead-dev")).trouble.category is Category.TARGET_AMBIGUOUS
    assert stage.runtime.stopped == []


async def test_a_result_that_appears_below_meanwhile_keeps_the_agent(stage: Stage) -> None:
    await stage.add_parent("lead-dev", "one", "two")

    async def finish_the_other(identity: Identity) -> None:
        await stage.finish("two" if identity.of.label == "one" else "one")

    stage.runtime.while_stopping = finish_the_other
    error = await refused(stage, "lead-dev")
    [closed] = stage.runtime.stopped
    assert error.trouble.category is Category.TARGET_AMBIGUOUS
    assert error.trouble.details["closed"] == [closed]
    assert await labels(stage) == {"lead-dev", "one", "two"} - {closed}


async def test_the_next_agent_of_a_label_is_not_closed(stage: Stage) -> None:
    scout = await stage.add("scout")
    later = replace(scout, of=replace(scout.of, generation=GenerationId(uid("later"))))

    async def take_over(identity: Identity) -> None:
        await stage.mailbox("scout").write_state(later)

    stage.runtime.while_stopping = take_over
    assert (await refused(stage)).trouble.category is Category.TARGET_NOT_FOUND
    assert await stage.mailbox("scout").read_state() == later


async def test_the_next_agent_of_a_label_keeps_those_below_it_too(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = await stage.add_parent("lead-dev", "worker")
    later = replace(parent, of=replace(parent.of, generation=GenerationId(uid("later"))))
    claim = Mailbox.claim

    @asynccontextmanager
    async def take_over_and_claim(mailbox: Mailbox) -> AsyncIterator[None]:
        await mailbox.write_state(later)
        async with claim(mailbox):
            yield

    monkeypatch.setattr(Mailbox, "claim", take_over_and_claim)
    assert (await refused(stage, "lead-dev")).trouble.category is Category.TARGET_NOT_FOUND
    assert stage.runtime.stopped == []


async def test_a_result_that_appears_below_before_the_lock_is_kept(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stage.add_parent("lead-dev", "worker")
    claim = Mailbox.claim

    @asynccontextmanager
    async def finish_and_claim(mailbox: Mailbox) -> AsyncIterator[None]:
        if mailbox.label == "worker":
            await stage.finish("worker")
        async with claim(mailbox):
            yield

    monkeypatch.setattr(Mailbox, "claim", finish_and_claim)
    assert (await refused(stage, "lead-dev")).trouble.category is Category.TARGET_AMBIGUOUS
    assert stage.runtime.stopped == []


async def test_an_agent_whose_work_is_delivered_is_cleared_away_with_all_below_it(
    stage: Stage,
) -> None:
    parent = await stage.add_parent("lead-dev", "worker")
    scout = await stage.add("scout")
    for state in (parent, scout):
        await clear_away(stage.controller(), state.identity)
    assert stage.runtime.stopped == ["worker", "lead-dev", "scout"]
    assert await labels(stage) == set()


async def test_an_agent_that_cannot_be_cleared_away_is_told(stage: Stage) -> None:
    scout = await stage.add("scout")
    with failing_at(BROKEN), pytest.raises(HerdError) as caught:
        await clear_away(stage.controller(), scout.identity)
    assert caught.value.trouble.category is Category.INTERNAL_FAILURE
    later = replace(scout, of=replace(scout.of, generation=GenerationId(uid("later"))))
    await stage.mailbox("scout").write_state(later)
    with pytest.raises(HerdError) as caught:
        await clear_away(stage.controller(), scout.identity)
    assert caught.value.trouble.category is Category.TARGET_NOT_FOUND


@pytest.mark.slow
async def test_a_close_that_dies_anywhere_is_finished_by_a_later_one(tmp_path: Path) -> None:
    async def begin(name: str) -> Stage:
        (tmp_path / name).mkdir()
        stage = Stage.at(tmp_path / name)
        parent = await stage.add_parent("lead-dev", "worker")
        question = Ask(parent.of, ask_id("which"), TASK, parent.session, "Which one?", NOW_MS)
        await stage.mailbox("lead-dev").write_ask(question)
        return stage

    stage = await begin("recorded")
    with passed_points() as points:
        await close(stage.controller(), agent="lead-dev")
    steps = [(name, points[: index + 1].count(name)) for index, name in enumerate(points)]
    assert len(steps) > 4
    for number, (name, passes) in enumerate(steps):
        stage = await begin(str(number))
        with dying_at(name, passes), pytest.raises(Died):
            await close(stage.controller(), agent="lead-dev")
        # The agents die with their host.
        stage.runtime.agents.clear()
        seen = await look(stage.premises, stage.runtime)
        assert not seen.scan.unreadable
        if "lead-dev" in await labels(stage):
            await close(stage.controller(), agent="lead-dev")
        assert await labels(stage) == set()
        assert not await stage.mailbox("lead-dev").is_occupied()


async def test_a_result_for_an_agent_that_is_gone_is_kept_and_holds_nobody_up(
    stage: Stage,
) -> None:
    parent = await stage.add_parent("lead-dev", "one", "two")
    await stage.change("two", active=request("two"))
    for label in ("one", "two"):
        await stage.finish(label)
    assert "agent_close" not in await tools(stage, "lead-dev")
    stage.see(parent, None)
    assert "agent_close" in await tools(stage, "lead-dev")
    answer = await close(stage.controller(), agent="lead-dev")
    assert answer["kept_results"] == {"one": f"result:{TASK}", "two": f"result:{request('two')}"}
    assert await labels(stage) == set()
    assert (stage.premises.results / TASK).read_text().endswith("done")


async def test_a_result_that_appears_while_an_orphan_is_stopped_is_kept(stage: Stage) -> None:
    parent = await stage.add_parent("lead-dev", "one")
    stage.see(parent, None)

    async def finish(identity: Identity) -> None:
        await stage.finish("one")

    stage.runtime.while_stopping = finish
    answer = await close(stage.controller(), agent="lead-dev")
    assert answer["kept_results"] == {"one": f"result:{TASK}"}


async def test_a_failure_for_an_agent_that_is_gone_has_nothing_to_keep(stage: Stage) -> None:
    parent = await stage.add_parent("lead-dev", "one")
    state = await stage.change("one", active=None, completed=TASK)
    failure = Failure(FailureCode.EMPTY_RESULT, "it said nothing")
    result = Result(state.of, TASK, "failed", NOW_MS, error=failure)
    await stage.mailbox("one").write_result(result)
    stage.see(parent, None)
    assert "kept_results" not in await close(stage.controller(), agent="lead-dev")
    assert await labels(stage) == set()


async def test_a_result_that_cannot_be_kept_stays_where_it_is(stage: Stage) -> None:
    parent = await stage.add_parent("lead-dev", "one")
    await stage.finish("one")
    stage.see(parent, None)
    with failing_at("herd.artifact.written"):
        error = await refused(stage, "lead-dev")
    assert error.trouble.category is Category.INTERNAL_FAILURE
    path = stage.mailbox("one").folder / f"result-{TASK}.json"
    whole = path.read_bytes()
    path.write_text("{")
    error = await refused(stage, "lead-dev")
    assert error.trouble.category is Category.TARGET_AMBIGUOUS
    path.write_bytes(whole)
    assert await labels(stage) == {"lead-dev", "one"}
    await close(stage.controller(), agent="lead-dev")
    assert await labels(stage) == set()
