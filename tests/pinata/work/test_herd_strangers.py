"""Who speaks for a session, and for its agents, when no host does."""

import pytest
import trio

from agents.herdsman.errors import Category, HerdError
from agents.herdsman.owner import OwnerAwayError
from agents.herdsman.runtime import RESULT, Message
from pinata.work.herd_strangers import AwayOwner, NoRuntime
from tests.support.herd_led import launch_of
from tests.support.herd_records import LEAD, state_of


async def test_nothing_is_started_ended_or_looked_at_in_agents_that_nobody_runs() -> None:
    runtime, identity = NoRuntime(), state_of("scout").identity
    for call in (
        lambda: runtime.prepare(launch_of("scout")),
        lambda: runtime.stop(identity),
        lambda: runtime.capture(identity),
        lambda: runtime.processes(identity),
    ):
        with pytest.raises(HerdError, match="no host runs the agent scout") as caught:
            await call()
        assert caught.value.trouble.category is Category.TARGET_NOT_FOUND
    assert runtime.conversation(identity) is None


async def test_session_that_nobody_speaks_for_is_never_idle_and_takes_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    owner = AwayOwner(LEAD)
    assert owner.session == LEAD
    assert not owner.is_idle
    message = Message(RESULT, "It is done.", {"delivery": "g/r"})
    for call in (
        owner.entries,
        lambda: owner.append("kind", {}),
        lambda: owner.tell("g/r", message, only_if_idle=False),
    ):
        with pytest.raises(OwnerAwayError):
            await call()
    with trio.move_on_after(3600) as waited:
        await owner.wait_changed()
    assert waited.cancelled_caught
