from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from agents.herdsman.caller import Caller
from agents.herdsman.errors import Category, HerdError
from agents.herdsman.findings import Scan, Unreadable
from agents.herdsman.listing import agent_records
from agents.herdsman.look import Look, look
from agents.herdsman.mailbox import Mailbox
from agents.herdsman.premises import Premises
from agents.herdsman.presence import Presence
from agents.herdsman.record import Contents, State
from agents.herdsman.runtime import Inventory, Lifecycle
from engine.core.errors import ExternalError
from tests.support.clock import FakeClock
from tests.support.herd_agents import PlayedRuntime
from tests.support.herd_records import (
    LEAD,
    NOW_MS,
    TASK,
    WORKSPACE,
    caller_of,
    inventory_of,
    mailbox,
    session,
)


class SeeingRuntime(PlayedRuntime):
    """Sees every generation that it is asked for, unless it cannot tell.

    Attributes:
        fault: why it cannot tell.
        asked: the generations of each inventory that it was asked for.
    """

    def __init__(self, folder: Path, nursery: trio.Nursery, fault: str | None = None) -> None:
        super().__init__(folder, nursery)
        self.fault = fault
        self.asked: list[Sequence[State]] = []

    async def inventory(self, states: Sequence[State]) -> Inventory:
        await trio.lowlevel.checkpoint()
        self.asked.append(states)
        if self.fault is not None:
            raise ExternalError(self.fault)
        return inventory_of((Contents(state) for state in states), Lifecycle.WORKING)


def premises_in(folder: Path) -> Premises:
    return Premises(folder / "herd", FakeClock(NOW_MS), "the test")


async def write(premises: Premises, state: State) -> None:
    await Mailbox.of_generation(premises, state.of).write_state(state, creates=True)


async def test_look_finds_what_is_recorded_there_and_saved(tmp_path: Path) -> None:
    premises = premises_in(tmp_path)
    files = {name: tmp_path / f"{name}.jsonl" for name in ("full", "empty", "folder", "none")}
    files["full"].write_text("{}\n")
    files["empty"].touch()
    files["folder"].mkdir()
    states = [
        mailbox(name, active=TASK, session_file=str(path)).state for name, path in files.items()
    ]
    for state in states:
        await write(premises, state)
    async with trio.open_nursery() as nursery:
        runtime = SeeingRuntime(tmp_path, nursery)
        found = await look(premises, runtime)
    by_label = sorted(states, key=lambda state: state.of.label)
    assert [one.state for one in found.scan.contents] == by_label
    assert runtime.asked == [by_label]
    assert found.now_ms == NOW_MS
    assert [state.of.label for state in states if found.is_saved(state)] == ["full"]
    assert all(found.observe(state).presence is Presence.LIVE for state in states)
    listed = {
        one["agent"]: "agent_transcript" in one["available_tools"]
        for one in agent_records(found, caller_of(), {})
    }
    assert listed == {"full": True, "empty": False, "folder": False, "none": False}


async def test_file_that_no_machine_could_hold_is_not_saved(tmp_path: Path) -> None:
    premises = premises_in(tmp_path)
    state = replace(mailbox("scout").state, session_file="/" + "x" * 300)
    await write(premises, state)
    async with trio.open_nursery() as nursery:
        assert (await look(premises, SeeingRuntime(tmp_path, nursery))).saved == frozenset()


async def test_inventory_that_fails_makes_nobody_lost_and_lists_nobody(tmp_path: Path) -> None:
    premises = premises_in(tmp_path)
    await write(premises, mailbox("scout", active=TASK).state)
    async with trio.open_nursery() as nursery:
        with pytest.raises(HerdError) as caught:
            await look(premises, SeeingRuntime(tmp_path, nursery, "no answer in time"))
    assert caught.value.trouble.category is Category.INTERNAL_FAILURE
    assert "no answer in time" in caught.value.trouble.message


async def test_mailboxes_that_cannot_be_read_are_not_taken_for_none(tmp_path: Path) -> None:
    premises = premises_in(tmp_path)
    premises.mailboxes.parent.mkdir(parents=True)
    premises.mailboxes.touch()
    async with trio.open_nursery() as nursery:
        runtime = SeeingRuntime(tmp_path, nursery)
        with pytest.raises(HerdError) as caught:
            await look(premises, runtime)
    assert caught.value.trouble.category is Category.INTERNAL_FAILURE
    assert runtime.asked == []


async def test_herd_of_nobody_is_an_empty_look(tmp_path: Path) -> None:
    premises = premises_in(tmp_path)
    async with trio.open_nursery() as nursery:
        found = await look(premises, SeeingRuntime(tmp_path, nursery))
    assert agent_records(found, caller_of(), {}) == []
    assert not premises.root.exists()


async def test_record_that_cannot_be_read_is_told_and_hides_no_other(tmp_path: Path) -> None:
    premises = premises_in(tmp_path)
    await write(premises, mailbox("scout", active=TASK).state)
    odd = premises.mailboxes / ("0" * 32)
    odd.mkdir()
    (odd / "state.json").write_text("{")
    async with trio.open_nursery() as nursery:
        found = await look(premises, SeeingRuntime(tmp_path, nursery))
    scout, unreadable = agent_records(found, caller_of(), {})
    assert scout["agent"] == "scout"
    assert "agent_close" not in scout["available_tools"]
    assert (unreadable["state"], unreadable["available_tools"]) == ("unknown", [])
    assert set(unreadable) == {"state", "available_tools", "diagnostic"}


@pytest.mark.parametrize(
    ("unreadable", "caller", "may_be"),
    [
        (Unreadable("a", ""), caller_of(), True),
        (Unreadable("a", "", "/elsewhere"), caller_of(), True),
        (Unreadable("a", "", WORKSPACE, LEAD), caller_of(), True),
        (Unreadable("a", "", WORKSPACE, session("another")), caller_of(), False),
        (Unreadable("a", ""), caller_of(kind="agent"), True),
        (Unreadable("a", "", WORKSPACE, LEAD), caller_of(kind="agent"), True),
        (Unreadable("a", "", "/elsewhere"), caller_of(kind="agent"), False),
    ],
)
def test_mailbox_that_cannot_be_read_may_be_of_whoevers_is_not_disproved(
    unreadable: Unreadable, caller: Caller, *, may_be: bool
) -> None:
    found = Look(Scan((), (unreadable,)), Inventory((), ()), NOW_MS)
    assert found.may_own_hidden(caller) is may_be


def test_without_mailboxes_that_cannot_be_read_nobody_is_hidden() -> None:
    assert not Look(Scan(), Inventory((), ()), NOW_MS).may_own_hidden(caller_of())
