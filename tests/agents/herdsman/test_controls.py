"""Tests of `agents.herdsman.controls`."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from agents.herdsman import controls
from agents.herdsman.artifacts import artifact_path
from agents.herdsman.config import HerdConfig, change_config, read_config
from agents.herdsman.controller import Controller
from agents.herdsman.controls import interrupt, reply, steer
from agents.herdsman.errors import Category, HerdError
from agents.herdsman.identity import GenerationId, RequestId
from agents.herdsman.mailbox_locks import delegation_lock
from agents.herdsman.premises import Premises
from agents.herdsman.record import Ask, Binding, RejectionCode, Request, RequestKind, State
from agents.herdsman.record_form import REQUEST
from agents.herdsman.runtime import BINDING, Entry, Lifecycle
from agents.herdsman.submit import leave
from tests.support.herd_owners import TASK, Stage
from tests.support.herd_records import NOW_MS, ask_id, session, uid

CALLS = {"steer": steer, "interrupt": interrupt, "reply": reply}


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage.at(tmp_path)


async def tell(
    stage: Stage,
    call: str = "steer",
    *,
    agent: str = "scout",
    message: str = "go on",
    files: tuple[str, ...] = (),
    controller: Controller | None = None,
) -> dict[str, Any]:
    by = controller or stage.controller()
    return await CALLS[call](by, agent=agent, message=message, files=files)


async def refused(stage: Stage, call: str = "steer", **more: Any) -> HerdError:
    """Return why a call was refused, which left nothing in the mailbox."""
    before = list_requests(stage)
    with pytest.raises(HerdError) as caught:
        await tell(stage, call, **more)
    assert list_requests(stage) == before
    assert caught.value.trouble.operation == call
    assert caught.value.trouble.ids["agent"] == more.get("agent", "scout")
    return caught.value


def list_requests(stage: Stage, label: str = "scout") -> list[str]:
    return sorted(path.name for path in stage.mailbox(label).folder.glob("request-*"))


async def ask(stage: Stage, name: str = "which", label: str = "scout") -> Ask:
    """Have an agent wait with a question."""
    state = await stage.mailbox(label).read_state()
    assert state is not None
    question = Ask(state.of, ask_id(name), TASK, state.session, "Which one?", NOW_MS)
    await stage.mailbox(label).write_ask(question)
    await stage.change(label, pending_ask=question.ask)
    return question


async def take_over(stage: Stage, old: State) -> State:
    """Have another generation use the label of one that is gone."""
    await stage.mailbox(old.of.label).remove()
    of = replace(old.of, generation=GenerationId(uid("another generation")))
    state = replace(old, of=of)
    await stage.mailbox(old.of.label).write_state(state, creates=True)
    return state


@pytest.mark.parametrize("call", ["steer", "interrupt"])
async def test_an_agent_at_work_is_told_and_keeps_its_assignment(stage: Stage, call: str) -> None:
    scout = await stage.add("scout")
    async with stage.answering("scout") as answered:
        told = await tell(stage, call, message="look there")
    [request] = answered
    assert (request.kind, request.text) == (RequestKind(call), "look there")
    assert told == {
        "action": call,
        "agent": "scout",
        "request_id": request.request,
        "assignment_request_id": TASK,
        "session_id": scout.session,
    }
    state = await stage.mailbox("scout").read_state()
    assert state is not None
    assert state.active == TASK


async def test_a_question_is_answered_by_its_own_reply(stage: Stage) -> None:
    await stage.add("scout", lifecycle=Lifecycle.IDLE)
    question = await ask(stage)
    async with stage.answering("scout") as answered:
        told = await tell(stage, "reply", message="the left one")
    [request] = answered
    assert (request.kind, request.ask) == (RequestKind.REPLY, question.ask)
    assert told["ask_id"] == question.ask
    assert told["action"] == "reply"


async def test_an_agent_that_waits_for_others_is_steered_and_not_interrupted(stage: Stage) -> None:
    await stage.add_parent("lead-dev", "worker")
    scout = await stage.mailbox("lead-dev").read_state()
    assert scout is not None
    stage.see(scout, Lifecycle.IDLE)
    async with stage.answering("lead-dev"):
        assert (await tell(stage, agent="lead-dev"))["action"] == "steer"
    error = await refused(stage, "interrupt", agent="lead-dev")
    assert error.trouble.category is Category.AGENT_BUSY


async def test_nothing_is_there_to_interrupt_in_an_agent_at_rest(stage: Stage) -> None:
    await stage.add("scout", lifecycle=Lifecycle.IDLE)
    for call in ("steer", "interrupt", "reply"):
        error = await refused(stage, call)
        assert error.trouble.category is Category.AGENT_BUSY
        assert error.trouble.next_action


async def test_an_agent_with_a_question_takes_nothing_but_its_answer(stage: Stage) -> None:
    await stage.add("scout")
    await ask(stage)
    for call in ("steer", "interrupt"):
        assert (await refused(stage, call)).trouble.category is Category.AGENT_BUSY


@pytest.mark.parametrize("call", ["steer", "interrupt", "reply"])
async def test_an_agent_of_somebody_else_is_not_there(stage: Stage, call: str) -> None:
    await stage.add("scout", owner=session("another lead"))
    error = await refused(stage, call)
    assert error.trouble.category is Category.TARGET_NOT_FOUND
    await stage.add_parent("lead-dev", "worker")
    error = await refused(stage, call, agent="worker")
    assert error.trouble.category is Category.TARGET_NOT_FOUND


async def test_a_lost_agent_is_not_there_and_can_be_closed(stage: Stage) -> None:
    await stage.add("scout", lifecycle=None)
    error = await refused(stage)
    assert error.trouble.category is Category.TARGET_NOT_FOUND
    assert "agent_close" in error.trouble.next_action


async def test_nothing_is_told_where_it_cannot_be_told_who_is_there(stage: Stage) -> None:
    scout = await stage.add("scout")
    stage.runtime.agents[scout.handle] = replace(
        stage.runtime.agents[scout.handle], session=session("another")
    )
    assert (await refused(stage)).trouble.category is Category.TARGET_AMBIGUOUS
    stage.runtime.fault = "no answer"
    assert (await refused(stage)).trouble.category is Category.INTERNAL_FAILURE


async def test_a_second_request_is_refused_while_one_is_not_answered(stage: Stage) -> None:
    scout = await stage.add("scout")
    earlier = Request(scout.of, RequestId(uid("earlier")), RequestKind.STEER, "first", NOW_MS)
    await stage.mailbox("scout").write_request(earlier)
    error = await refused(stage)
    assert error.trouble.category is Category.AGENT_BUSY
    assert len(list_requests(stage)) == 1


async def test_a_request_that_its_owner_left_behind_is_removed_before_the_next(
    stage: Stage,
) -> None:
    scout = await stage.add("scout")
    earlier = Request(scout.of, RequestId(uid("earlier")), RequestKind.STEER, "first", NOW_MS)
    await stage.mailbox("scout").write_request(earlier)
    await stage.acknowledge("scout", earlier)
    async with stage.answering("scout") as answered:
        await tell(stage, message="second")
        contents = await stage.mailbox("scout").read()
    assert [request.text for request in answered] == ["second"]
    assert contents is not None
    assert list_requests(stage) == [f"request-{answered[0].request}.json"]


@pytest.mark.parametrize(
    ("code", "category"),
    [
        (RejectionCode.BUSY, Category.AGENT_BUSY),
        (RejectionCode.IDLE, Category.AGENT_BUSY),
        (RejectionCode.INVALID, Category.INVALID_REQUEST),
        (RejectionCode.IDENTITY, Category.TARGET_NOT_FOUND),
        (RejectionCode.AMBIGUOUS, Category.TARGET_AMBIGUOUS),
        (RejectionCode.DELIVERY, Category.INTERNAL_FAILURE),
    ],
)
async def test_a_refusal_of_the_agent_is_told_with_its_reason(
    stage: Stage, code: RejectionCode, category: Category
) -> None:
    scout = await stage.add("scout")
    async with stage.answering("scout", code, "an interrupt is settling"):
        with pytest.raises(HerdError) as caught:
            await tell(stage)
    trouble = caught.value.trouble
    assert trouble.category is category
    assert "an interrupt is settling" in trouble.message
    assert trouble.ids["agent"] == "scout"
    assert trouble.ids["session_id"] == scout.session
    assert trouble.details == {"code": code.value}


async def test_a_refused_agent_takes_the_next_request(stage: Stage) -> None:
    await stage.add("scout")
    async with stage.answering("scout", RejectionCode.BUSY):
        with pytest.raises(HerdError):
            await tell(stage)
    async with stage.answering("scout"):
        assert (await tell(stage))["agent"] == "scout"


async def test_a_request_without_an_answer_stays_and_is_not_to_be_repeated(
    stage: Stage, herd_clock: MockClock
) -> None:
    await stage.add("scout")
    with pytest.raises(HerdError) as caught:
        await tell(stage)
    assert trio.current_time() >= 5
    trouble = caught.value.trouble
    request = trouble.ids["request_id"]
    assert trouble.category is Category.INTERNAL_FAILURE
    assert trouble.details == {"delivery": "unconfirmed", "request_id": request}
    assert "do not send it again" in trouble.next_action
    assert list_requests(stage) == [f"request-{request}.json"]
    handed = await stage.handed("scout")
    await stage.acknowledge("scout", handed)
    async with stage.answering("scout") as answered:
        await tell(stage, message="next")
    assert [one.text for one in answered] == ["next"]


async def test_an_answer_that_nobody_rings_for_is_found(
    stage: Stage, herd_clock: MockClock
) -> None:
    scout = await stage.add("scout")
    elsewhere = replace(
        stage, premises=replace(stage.premises, signals=type(stage.premises.signals)())
    )

    async def answer() -> None:
        await elsewhere.acknowledge("scout", await stage.handed("scout"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(answer)
        told = await tell(stage)
    assert told["session_id"] == scout.session


async def test_a_mailbox_that_goes_away_gives_no_answer(
    stage: Stage, herd_clock: MockClock
) -> None:
    await stage.add("scout")

    async def close() -> None:
        await stage.handed("scout")
        await stage.mailbox("scout").remove()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(close)
        with pytest.raises(HerdError) as caught:
            await tell(stage)
    assert caught.value.trouble.details["delivery"] == "unconfirmed"


@pytest.mark.parametrize("moment", ["while the message is prepared", "before the lock is taken"])
async def test_the_next_agent_of_a_label_is_told_nothing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    scout = await stage.add("scout")
    if moment == "while the message is prepared":

        async def take_over_and_read(premises: Premises) -> HerdConfig:
            await take_over(stage, scout)
            return await read_config(premises)

        monkeypatch.setattr(controls, "read_config", take_over_and_read)
    else:

        async def take_over_and_leave(*args: Any, **more: Any) -> None:
            await take_over(stage, scout)
            await leave(*args, **more)

        monkeypatch.setattr(controls, "leave", take_over_and_leave)
    error = await refused(stage)
    assert error.trouble.category is Category.TARGET_NOT_FOUND


async def test_an_agent_that_came_to_rest_before_the_lock_is_told_nothing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stage.add("scout")

    async def change_and_leave(*args: Any, **more: Any) -> None:
        await stage.change("scout", active=None, completed=TASK)
        await leave(*args, **more)

    monkeypatch.setattr(controls, "leave", change_and_leave)
    assert (await refused(stage)).trouble.category is Category.AGENT_BUSY


async def test_an_agent_that_is_lost_while_the_message_is_prepared_is_told_nothing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    scout = await stage.add("scout")

    async def lose_and_read(premises: Premises) -> HerdConfig:
        stage.see(scout, None)
        return await read_config(premises)

    monkeypatch.setattr(controls, "read_config", lose_and_read)
    assert (await refused(stage)).trouble.category is Category.TARGET_NOT_FOUND


async def test_a_question_that_was_answered_is_not_answered_again(stage: Stage) -> None:
    await stage.add("scout")
    await ask(stage)
    await stage.change("scout", pending_ask=None)
    assert (await refused(stage, "reply")).trouble.category is Category.AGENT_BUSY


async def test_another_question_is_not_answered_by_a_reply_to_the_first(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stage.add("scout", lifecycle=Lifecycle.IDLE)
    await ask(stage)

    async def change_and_leave(*args: Any, **more: Any) -> None:
        await ask(stage, "another")
        await leave(*args, **more)

    monkeypatch.setattr(controls, "leave", change_and_leave)
    assert (await refused(stage, "reply")).trouble.category is Category.TARGET_NOT_FOUND


async def test_a_question_that_is_not_the_one_waited_with_is_not_answered(stage: Stage) -> None:
    await stage.add("scout", lifecycle=Lifecycle.IDLE)
    question = await ask(stage)
    await stage.mailbox("scout").write_ask(replace(question, request=RequestId(uid("another"))))
    assert (await refused(stage, "reply")).trouble.category is Category.TARGET_NOT_FOUND
    (stage.mailbox("scout").folder / "ask.json").write_text("{")
    assert (await refused(stage, "reply")).trouble.category is Category.INTERNAL_FAILURE


async def test_a_record_of_just_the_limit_is_left_and_a_byte_more_is_refused(stage: Stage) -> None:
    scout = await stage.add("scout")
    await change_config(stage.premises, {"mailboxPayloadLimitBytes": 2048})
    empty = Request(scout.of, RequestId(uid("any")), RequestKind.STEER, "x", NOW_MS)
    text = "x" * (2048 - len(REQUEST.encode(empty)) + 1)
    async with stage.answering("scout") as answered:
        await tell(stage, message=text)
    assert len(REQUEST.encode(answered[0])) == 2048
    error = await refused(stage, message=f"{text}x")
    assert error.trouble.category is Category.INVALID_REQUEST
    assert "2,049 bytes" in str(error)
    assert "2,048 bytes" in str(error)


async def test_a_file_goes_with_the_message_under_its_heading(stage: Stage) -> None:
    await stage.add("scout")
    (stage.folder / "notes.txt").write_text("a note")
    async with stage.answering("scout") as answered:
        await tell(stage, "interrupt", message="read it", files=("notes.txt",))
    assert answered[0].text == (
        f'<file name="{stage.folder}/notes.txt" bytes="6">\na note\n</file>\n\nInterrupt:\nread it'
    )


async def test_a_file_that_is_not_there_leaves_no_message(stage: Stage) -> None:
    await stage.add("scout")
    error = await refused(stage, files=("nothing.txt",))
    assert error.trouble.category is Category.INVALID_REQUEST
    assert error.trouble.ids["agent"] == "scout"


async def test_a_reference_that_was_imported_is_passed_on(stage: Stage) -> None:
    await stage.add("scout")
    binding = Binding("result:finder#3", f"result:{uid('a result')}")
    path = artifact_path(stage.premises, RequestId(uid("a result")))
    path.parent.mkdir(parents=True)
    path.write_text("provenance of the first producer\n\nfound it")
    details = {"semantic": binding.semantic, "canonical": binding.canonical}
    stage.owner.history.append(Entry(BINDING, details))
    async with stage.answering("scout") as answered:
        await tell(stage, files=("result:finder#3",))
    assert answered[0].bindings == (binding,)
    assert "provenance of the first producer\n\nfound it" in answered[0].text


async def test_settings_that_cannot_be_read_leave_no_message(stage: Stage) -> None:
    await stage.add("scout")
    stage.premises.config_file.write_text("{")
    assert (await refused(stage)).trouble.category is Category.INVALID_REQUEST


async def test_a_delegating_agent_tells_its_own_agents_and_nobody_elses(stage: Stage) -> None:
    await stage.add_parent("lead-dev", "worker")
    parent = stage.controller(session("lead-dev"), is_lead=False)
    async with stage.answering("worker"):
        assert (await tell(stage, agent="worker", controller=parent))["agent"] == "worker"
    error = await refused(stage, agent="lead-dev", controller=parent)
    assert error.trouble.category is Category.TARGET_NOT_FOUND


async def test_a_delegating_agent_tells_nobody_while_it_is_closed(stage: Stage) -> None:
    await stage.add_parent("lead-dev", "worker")
    parent = stage.controller(session("lead-dev"), is_lead=False)
    async with delegation_lock(stage.premises, stage.workspace, session("lead-dev")):
        error = await refused(stage, agent="worker", controller=parent)
    assert error.trouble.category is Category.AGENT_BUSY


async def test_a_mailbox_that_somebody_works_on_is_left_alone(
    stage: Stage, herd_clock: MockClock
) -> None:
    await stage.add("scout")
    async with stage.mailbox("scout").claim(patience_s=0):
        assert (await refused(stage)).trouble.category is Category.AGENT_BUSY


async def test_a_mailbox_that_is_in_use_for_a_moment_is_waited_for(
    stage: Stage, herd_clock: MockClock
) -> None:
    await stage.add("scout")

    async def write_down(task_status: trio.TaskStatus[None]) -> None:
        async with stage.mailbox("scout").claim():
            task_status.started()
            await trio.sleep(0.5)

    async with trio.open_nursery() as nursery:
        await nursery.start(write_down)
        async with stage.answering("scout"):
            assert (await tell(stage))["agent"] == "scout"
