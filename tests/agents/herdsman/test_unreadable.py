"""What a mailbox that cannot be read still tells, and which agents it keeps from being closed."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from agents.herdsman.closing import clear_away, close
from agents.herdsman.errors import Category, HerdError
from agents.herdsman.findings import Unreadable
from agents.herdsman.premises import Premises
from agents.herdsman.scan import scan
from tests.support.clock import FakeClock
from tests.support.herd_boxes import Full, box_of, premises_at
from tests.support.herd_owners import Stage
from tests.support.herd_records import LEAD, NOW_MS, WORKSPACE, session

DAMAGE = b'{"version": 4, "of": '


@pytest.fixture
def premises(tmp_path: Path) -> Premises:
    return premises_at(tmp_path)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage.at(tmp_path)


async def told(premises: Premises) -> Unreadable:
    """Return what somebody who has seen nothing before is told of the only mailbox."""
    anew = Premises(premises.root, FakeClock(NOW_MS), "a test")
    found = await scan(anew)
    assert found.contents == ()
    [one] = found.unreadable
    return one


def damage(folder: Path, data: bytes = DAMAGE) -> None:
    (folder / "state.json").write_bytes(data)


async def test_records_beside_a_damaged_state_tell_whose_it_is(premises: Premises) -> None:
    full = await Full.at(premises)
    damage(full.mailbox.folder)
    one = await told(premises)
    assert (one.workspace, one.owner) == (WORKSPACE, LEAD)


@pytest.mark.parametrize("kind", ["request", "result", "ask"])
async def test_a_record_that_is_damaged_too_proves_no_owner(premises: Premises, kind: str) -> None:
    full = await Full.at(premises)
    damage(full.mailbox.folder)
    next(full.mailbox.folder.glob(f"{kind}*.json")).write_bytes(DAMAGE)
    one = await told(premises)
    assert (one.workspace, one.owner) == (WORKSPACE, None)


async def test_records_that_contradict_each_other_prove_no_owner(premises: Premises) -> None:
    full = await Full.at(premises)
    damage(full.mailbox.folder)
    ask = full.mailbox.folder / "ask.json"
    said = json.loads(ask.read_text())
    said["of"]["owner"] = session("another")
    ask.write_text(json.dumps(said))
    assert (await told(premises)).owner is None


async def test_a_state_of_another_version_tells_its_workspace_and_nothing_else(
    premises: Premises,
) -> None:
    full = await Full.at(premises)
    state = full.mailbox.folder / "state.json"
    said = json.loads(state.read_text()) | {"version": 5, "more": [1]}
    for path in full.mailbox.folder.iterdir():
        path.unlink()
    damage(full.mailbox.folder, json.dumps(said).encode())
    one = await told(premises)
    assert (one.workspace, one.owner) == (WORKSPACE, None)


@pytest.mark.parametrize(
    "of",
    [
        {"workspace": "/other", "label": "scout"},
        {"workspace": WORKSPACE, "label": "tester"},
        {"workspace": WORKSPACE, "label": "\udc80"},
        {"workspace": "\udfff", "label": "scout"},
        {"workspace": 7, "label": "scout"},
        "scout",
    ],
)
async def test_what_does_not_give_the_name_of_the_folder_proves_nothing(
    premises: Premises, of: object
) -> None:
    folder = box_of(premises).folder
    folder.mkdir(parents=True)
    damage(folder, json.dumps({"of": of}).encode())
    one = await told(premises)
    assert (one.workspace, one.owner) == (None, None)


async def test_a_mailbox_in_the_place_of_another_proves_nothing(premises: Premises) -> None:
    full = await Full.at(premises)
    full.mailbox.folder.rename(box_of(premises, "tester").folder)
    one = await told(premises)
    assert (one.workspace, one.owner) == (None, None)


@pytest.mark.parametrize("kind", ["link", "file", "fifo", "many", "long"])
async def test_a_hostile_mailbox_proves_nothing_and_holds_nobody_up(
    premises: Premises, kind: str
) -> None:
    full = await Full.at(premises)
    folder = full.mailbox.folder
    damage(folder)
    match kind:
        case "link":
            folder.rename(premises.root / "elsewhere")
            folder.symlink_to(premises.root / "elsewhere")
        case "file":
            folder.rename(premises.root / "elsewhere")
            folder.touch()
        case "fifo":
            for path in folder.iterdir():
                path.unlink()
                os.mkfifo(path)
        case "many":
            for number in range(100):
                (folder / f"request-{number}.json").touch()
        case "long":
            for path in folder.iterdir():
                with path.open("ab") as file:
                    file.truncate(3 << 20)
    one = await told(premises)
    assert (one.workspace, one.owner) == (None, None)


async def test_what_was_read_once_is_known_to_be_of_its_workspace_for_ever(
    premises: Premises,
) -> None:
    folder = (await Full.at(premises)).mailbox.folder
    await scan(premises)
    for path in folder.iterdir():
        path.unlink()
    damage(folder)
    [one] = (await scan(premises)).unreadable
    assert (one.workspace, one.owner) == (WORKSPACE, None)
    (folder / "state.json").unlink()
    folder.rmdir()
    await scan(premises)
    assert premises.workspaces == {}


async def test_an_agent_that_starts_none_is_closed_whatever_else_cannot_be_read(
    stage: Stage,
) -> None:
    await stage.add("scout", delegates=False)
    await stage.add("odd")
    damage(stage.mailbox("odd").folder)
    assert (await close(stage.controller(), agent="scout"))["agent"] == "scout"


async def test_a_lead_is_not_kept_from_closing_by_what_is_of_another_workspace(
    stage: Stage,
) -> None:
    full = await Full.at(stage.premises)
    damage(full.mailbox.folder)
    await stage.add_parent("boss", "one")
    assert (await close(stage.controller(), agent="boss"))["agent"] == "boss"
    assert stage.runtime.stopped == ["one", "boss"]


async def refused(stage: Stage, call: Any, **arguments: Any) -> HerdError:
    with pytest.raises(HerdError) as caught:
        await call(stage.controller(), **arguments)
    return caught.value


async def test_what_may_be_a_child_keeps_its_parent_until_it_is_readable_again(
    stage: Stage,
) -> None:
    await stage.add_parent("boss", "one")
    state = stage.mailbox("one").folder / "state.json"
    before = state.read_bytes()
    damage(state.parent)
    error = await refused(stage, close, agent="boss")
    assert error.trouble.category is Category.TARGET_AMBIGUOUS
    assert state.parent.name in str(error)
    assert f"pinata herd set-aside {state.parent.name}" in error.trouble.next_action
    assert stage.runtime.stopped == []
    state.write_bytes(before)
    await close(stage.controller(), agent="boss")
    assert stage.runtime.stopped == ["one", "boss"]


async def test_an_agent_whose_work_is_delivered_stays_while_it_may_have_hidden_ones(
    stage: Stage,
) -> None:
    boss = await stage.add("boss", active=None, completed=None)
    await stage.add("one", owner=session("boss"))
    state = stage.mailbox("one").folder / "state.json"
    damage(state.parent)
    error = await refused(stage, clear_away, identity=boss.identity)
    assert error.trouble.category is Category.TARGET_AMBIGUOUS
    assert stage.runtime.stopped == []
