"""Tests of `agents.herdsman.submit`; what owners see of it is in those of `controls`."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agents.herdsman.errors import Category, HerdError, invalid
from agents.herdsman.identity import GenerationId, RequestId
from agents.herdsman.record import (
    Acknowledgement,
    Contents,
    Injection,
    Request,
    RequestKind,
    State,
)
from agents.herdsman.submit import leave, wait_answer
from tests.support.deaths import failing_at
from tests.support.herd_owners import TASK, Stage
from tests.support.herd_records import NOW_MS, uid

EARLIER = RequestId(uid("earlier"))


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage.at(tmp_path)


def steering(state: State, name: str = "steer") -> Request:
    return Request(state.of, RequestId(uid(name)), RequestKind.STEER, "go on", NOW_MS)


def accepted(request: RequestId) -> Acknowledgement:
    return Acknowledgement(request, accepted=True, at_ms=NOW_MS)


async def refused(
    stage: Stage, state: State, permit: Callable[[Contents], object] = lambda _: None
) -> HerdError:
    request = steering(state)
    with pytest.raises(HerdError) as caught:
        await leave(stage.mailbox("scout"), state.identity, request, permit=permit)
    assert await stage.mailbox("scout").read_request(request.request) is None
    return caught.value


async def test_a_generation_that_is_gone_is_left_nothing(stage: Stage) -> None:
    first = await stage.add("scout")
    later = replace(first, of=replace(first.of, generation=GenerationId(uid("later"))))
    await stage.mailbox("scout").write_state(later)
    assert (await refused(stage, first)).trouble.category is Category.TARGET_NOT_FOUND
    await stage.mailbox("scout").remove()
    assert (await refused(stage, later)).trouble.category is Category.TARGET_NOT_FOUND


async def test_a_mailbox_that_cannot_be_read_is_left_nothing(stage: Stage) -> None:
    scout = await stage.add("scout")
    (stage.mailbox("scout").folder / "state.json").write_text("{}")
    assert (await refused(stage, scout)).trouble.category is Category.TARGET_AMBIGUOUS


async def test_nothing_is_left_beside_a_request_that_is_not_answered(stage: Stage) -> None:
    scout = await stage.add("scout")
    await stage.mailbox("scout").write_request(steering(scout, "earlier"))
    assert (await refused(stage, scout)).trouble.category is Category.AGENT_BUSY


async def test_what_is_forbidden_under_the_lock_is_not_left(stage: Stage) -> None:
    def forbid(contents: Contents) -> None:
        raise invalid(f"{contents.state.of.label} must not be told")

    scout = await stage.add("scout")
    assert str(await refused(stage, scout, permit=forbid)) == "scout must not be told"


async def test_the_file_of_the_task_at_work_stays(stage: Stage) -> None:
    scout = await stage.add("scout", acknowledgement=accepted(TASK))
    task = Request(scout.of, TASK, RequestKind.TASK, "the task", NOW_MS)
    await stage.mailbox("scout").write_request(task)
    await stage.change("scout", injection=Injection(TASK, RequestKind.TASK))
    await leave(stage.mailbox("scout"), scout.identity, steering(scout))
    assert await stage.mailbox("scout").read_request(TASK) == task


async def test_nothing_is_left_while_what_was_told_before_is_taken_in(stage: Stage) -> None:
    scout = await stage.add("scout")
    await stage.change("scout", injection=Injection(EARLIER, RequestKind.INTERRUPT))
    assert (await refused(stage, scout)).trouble.category is Category.AGENT_BUSY


async def test_nothing_is_left_beside_an_answered_request_that_cannot_be_removed(
    stage: Stage,
) -> None:
    scout = await stage.add("scout")
    earlier = steering(scout, "earlier")
    await stage.mailbox("scout").write_request(earlier)
    await stage.change("scout", acknowledgement=accepted(earlier.request))
    with failing_at("herd.record.removed"):
        error = await refused(stage, scout)
    assert error.trouble.category is Category.INTERNAL_FAILURE


@pytest.mark.parametrize("step", ["renamed", "durable"])
async def test_what_is_written_and_not_flushed_is_left_and_no_failure(
    stage: Stage, step: str
) -> None:
    scout = await stage.add("scout")
    with failing_at(f"herd.request.{step}"):
        await leave(stage.mailbox("scout"), scout.identity, steering(scout))
    left = steering(scout)
    assert await stage.mailbox("scout").read_request(left.request) == left


async def test_nothing_is_left_where_it_cannot_be_written(stage: Stage) -> None:
    scout = await stage.add("scout")
    with failing_at("herd.request.written"):
        error = await refused(stage, scout)
    assert error.trouble.category is Category.INTERNAL_FAILURE


async def test_the_answer_to_an_earlier_request_is_none(stage: Stage) -> None:
    scout = await stage.add("scout", acknowledgement=accepted(EARLIER))
    mailbox = stage.mailbox("scout")
    assert await wait_answer(mailbox, steering(scout), patience_s=0.01) is None


async def test_a_state_that_cannot_be_read_gives_no_answer(stage: Stage) -> None:
    scout = await stage.add("scout")
    mailbox = stage.mailbox("scout")
    (mailbox.folder / "state.json").write_text("{}")
    assert await wait_answer(mailbox, steering(scout), patience_s=0.01) is None
