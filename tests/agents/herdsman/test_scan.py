"""Tests of `agents.herdsman.scan`."""

import os
from pathlib import Path

import pytest
import trio

from agents.herdsman.findings import Scan
from agents.herdsman.mailbox_names import folder_name
from agents.herdsman.premises import Premises
from agents.herdsman.record_form import STATE
from agents.herdsman.scan import _touched_ns, scan
from engine.core.errors import ExternalError
from tests.support.deaths import failing_reads
from tests.support.herd_boxes import Full, box_of, premises_at
from tests.support.herd_owners import Stage
from tests.support.herd_records import TASK, state_of


@pytest.fixture
def premises(tmp_path: Path) -> Premises:
    return premises_at(tmp_path)


def test_a_mailbox_that_is_gone_was_touched_long_ago(tmp_path: Path) -> None:
    assert _touched_ns(tmp_path / "gone") == 0


async def test_where_nothing_was_ever_written_nothing_is_found(premises: Premises) -> None:
    assert await scan(premises) == Scan()
    premises.mailboxes.mkdir(parents=True)
    assert await scan(premises) == Scan()


async def test_every_mailbox_is_found_whoevers_it_is(premises: Premises) -> None:
    full = await Full.at(premises)
    other = state_of("scout", workspace="/other")
    lead = state_of("lead-dev")
    for state in (other, lead):
        await box_of(premises, state.of.label, state.of.workspace).write_state(state, creates=True)
    found = await scan(premises)
    assert [one.state for one in found.contents] == [other, lead, full.state]
    assert found.contents[2] == await full.mailbox.read()
    assert found.unreadable == ()


async def test_what_is_not_in_the_namespace_is_no_mailbox(premises: Premises) -> None:
    full = await Full.at(premises)
    folder = full.mailbox.folder
    for name in ("mailboxes-v3", "mailboxes"):
        place = premises.mailboxes.parent / name
        place.mkdir()
        (place / folder.name).mkdir()
        (place / folder.name / "state.json").write_bytes(STATE.encode(full.state))
    for name in (folder.name.upper(), folder.name[:-1], f"{folder.name}0", "x", "."):
        place = premises.mailboxes / name
        place.mkdir(exist_ok=True)
        (place / "state.json").write_bytes(STATE.encode(full.state))
    found = await scan(premises)
    assert [one.state for one in found.contents] == [full.state]
    assert found.unreadable == ()


async def test_a_mailbox_that_cannot_be_read_hides_no_other(premises: Premises) -> None:
    full = await Full.at(premises)
    broken = box_of(premises, "tester")
    broken.folder.mkdir()
    (broken.folder / "state.json").write_bytes(b'{"more": 1}')
    name = folder_name("/", full.mailbox.label)
    (premises.mailboxes / name).symlink_to(full.mailbox.folder)
    found = await scan(premises)
    assert [one.state for one in found.contents] == [full.state]
    assert {one.folder for one in found.unreadable} == {broken.folder.name, name}


async def test_a_folder_without_a_state_is_left_out(premises: Premises) -> None:
    box_of(premises).folder.mkdir(parents=True)
    assert await scan(premises) == Scan()


async def test_unreadable_mailboxes_are_told_in_short_and_the_latest_first(
    premises: Premises,
) -> None:
    premises.mailboxes.mkdir(parents=True)
    for number in range(70):
        folder = premises.mailboxes / f"{number:032x}"
        folder.mkdir()
        noise = "\x1b[31m\n" * 200
        (folder / "state.json").write_text(f'{{"{noise}": 1}}'.replace("\n", "\\n"), "utf-8")
        os.utime(folder, ns=(0, number))
    found = await scan(premises)
    assert [int(one.folder, 16) for one in found.unreadable] == list(range(69, -1, -1))
    assert all(len(one.diagnostic) <= 256 for one in found.unreadable)
    assert all(one.diagnostic.isprintable() for one in found.unreadable)


async def test_namespaces_that_cannot_be_listed_are_an_error_and_not_empty(
    premises: Premises,
) -> None:
    premises.mailboxes.parent.mkdir(parents=True)
    premises.mailboxes.write_text("no folder")
    with pytest.raises(ExternalError, match="mailboxes-v4 cannot be read: Not a directory"):
        await scan(premises)


@pytest.mark.slow
async def test_a_thousand_mailboxes_take_one_look(premises: Premises) -> None:
    for number in range(1000):
        state = state_of(f"scout-{number}", active=TASK)
        folder = box_of(premises, state.of.label).folder
        folder.mkdir(parents=True)
        (folder / "state.json").write_bytes(STATE.encode(state))
    found = await scan(premises)
    assert len(found.contents) == 1000
    assert found.unreadable == ()


async def test_mailbox_that_has_not_changed_is_read_once_and_one_that_has_again(
    tmp_path: Path,
) -> None:
    stage = Stage.at(tmp_path)
    await stage.add("scout")
    await stage.add("builder")
    await settled(stage)
    before = await scan(stage.premises)
    assert len(stage.premises.remembered) == 2
    with failing_reads("state.json"):
        assert await scan(stage.premises) == before
    changed = await stage.change("scout", last_activity_ms=7)
    assert changed in [one.state for one in (await scan(stage.premises)).contents]
    async with stage.mailbox("builder").claim_start():
        starting = [one.is_starting for one in (await scan(stage.premises)).contents]
    assert starting == [True, False]
    await stage.mailbox("builder").remove()
    assert len((await scan(stage.premises)).contents) == 1
    assert len(stage.premises.remembered) <= 1


async def test_mailbox_that_changed_a_moment_ago_is_read_again(tmp_path: Path) -> None:
    stage = Stage.at(tmp_path)
    await stage.add("scout")
    await scan(stage.premises)
    assert stage.premises.remembered == {}


async def test_file_that_was_changed_in_its_place_is_read_again(tmp_path: Path) -> None:
    stage = Stage.at(tmp_path)
    await stage.add("scout")
    await settled(stage)
    await scan(stage.premises)
    state = stage.mailbox("scout").folder / "state.json"
    text = state.read_text()
    os.truncate(state, 0)
    state.write_text(text.replace('"version":4', '"version":3'))
    found = await scan(stage.premises)
    assert found.contents == ()
    assert len(found.unreadable) == 1


async def settled(stage: Stage) -> None:
    """Have mailboxes look as if they had been left alone for a while."""
    folders = stage.premises.mailboxes
    with trio.fail_after(5):
        while not stage.premises.remembered or len(stage.premises.remembered) < len(
            list(folders.iterdir())
        ):
            await scan(stage.premises)


async def test_those_who_wait_for_a_look_share_one(tmp_path: Path) -> None:
    stage = Stage.at(tmp_path)
    await stage.add("scout")
    found: list[Scan] = []

    async def look() -> None:
        found.append(await scan(stage.premises))

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(look)
    assert len({id(each) for each in found}) <= 2
