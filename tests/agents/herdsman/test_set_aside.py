"""A mailbox that cannot be read is moved out of the way whole, and only if nobody lives in it."""

import json
import os
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import pytest
import trio

from agents.herdsman.closing import close
from agents.herdsman.errors import Category, HerdError
from agents.herdsman.identity import GenerationId
from agents.herdsman.launches import recorded_launch, stamp
from agents.herdsman.premises import Premises
from agents.herdsman.record import ProcessStamp
from agents.herdsman.scan import scan
from agents.herdsman.set_aside import set_aside
from engine.system.identity import identify
from tests.support.deaths import Died, dying_at, failing_at, passed_points
from tests.support.guard import blocking_allowed
from tests.support.herd_boxes import Full, box_of, premises_at, tree
from tests.support.herd_owners import Stage
from tests.support.herd_records import uid

OTHER = GenerationId(uid("generation of another"))


@pytest.fixture
def premises(tmp_path: Path) -> Premises:
    return premises_at(tmp_path)


async def damaged(premises: Premises) -> Path:
    """Return the folder of a mailbox with all kinds of records whose state is damaged."""
    folder = (await Full.at(premises)).mailbox.folder
    (folder / "state.json").write_bytes(b"{")
    return folder


def own() -> ProcessStamp:
    found = identify(os.getpid())
    assert found is not None
    return stamp(found)


async def refusal(premises: Premises, name: str) -> HerdError:
    """Return why a mailbox is not set aside; everything is as it was."""
    before = tree(premises.mailboxes)
    with pytest.raises(HerdError) as caught:
        await set_aside(premises, name)
    assert tree(premises.mailboxes) == before
    assert not premises.set_aside.exists()
    return caught.value


async def test_it_is_kept_as_it_was_and_can_be_moved_back(premises: Premises) -> None:
    folder = await damaged(premises)
    before = tree(folder)
    moved = await set_aside(premises, folder.name)
    assert moved == premises.set_aside / folder.name
    assert tree(moved) == before
    found = await scan(premises)
    assert (found.contents, found.unreadable) == ((), ())
    assert not await box_of(premises).is_occupied()
    moved.rename(folder)
    assert len((await scan(premises)).unreadable) == 1


async def test_those_that_were_set_aside_before_are_not_replaced(premises: Premises) -> None:
    moved, name = [], box_of(premises).folder.name
    for content in (b"{", b"[", b""):
        folder = await damaged(premises)
        (folder / "state.json").write_bytes(content)
        moved.append(await set_aside(premises, name))
    assert [each.name for each in moved] == [name, f"{name}-2", f"{name}-3"]
    assert [(each / "state.json").read_bytes() for each in moved] == [b"{", b"[", b""]


async def test_closes_that_it_held_up_go_on(tmp_path: Path) -> None:
    stage = Stage.at(tmp_path)
    await stage.add("boss")
    odd = stage.mailbox("odd").folder
    odd.mkdir()
    (odd / "state.json").touch()
    with pytest.raises(HerdError, match=odd.name):
        await close(stage.controller(), agent="boss")
    await set_aside(stage.premises, odd.name)
    assert (await close(stage.controller(), agent="boss"))["agent"] == "boss"


async def test_one_that_can_be_read_is_left_to_those_that_it_is_of(premises: Premises) -> None:
    full = await Full.at(premises)
    error = await refusal(premises, full.mailbox.folder.name)
    assert error.trouble.category is Category.AGENT_BUSY
    assert "'scout'" in str(error)
    assert "agent_close" in error.trouble.next_action


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../..",
        "a" * 31,
        "A" * 32,
        "a" * 33,
        f"../{'a' * 29}",
        f"{'a' * 32}/..",
        f"/{'a' * 31}",
        f"{'a' * 32}\n",
        f"{'a' * 31}\0",
        f"{'a' * 31}\udcff",
    ],
)
async def test_what_is_the_name_of_no_mailbox_is_refused(premises: Premises, name: str) -> None:
    await damaged(premises)
    assert (await refusal(premises, name)).trouble.category is Category.INVALID_REQUEST
    assert not premises.locks.exists()


async def test_one_that_is_not_there_or_empty_is_refused(premises: Premises) -> None:
    await damaged(premises)
    for name in ("a" * 32, "b" * 32):
        assert (await refusal(premises, name)).trouble.category is Category.TARGET_NOT_FOUND
        (premises.mailboxes / ("b" * 32)).mkdir(exist_ok=True)


@pytest.mark.parametrize("kind", ["link", "dangling", "file", "fifo", "fifo within", "unlisted"])
async def test_whatever_stands_there_is_moved_itself(premises: Premises, kind: str) -> None:
    folder = await damaged(premises)
    elsewhere = premises.root / "elsewhere"
    match kind:
        case "link" | "dangling":
            folder.rename(elsewhere)
            folder.symlink_to(elsewhere if kind == "link" else "/nowhere")
        case "file":
            folder.rename(elsewhere)
            folder.write_bytes(b"mine")
        case "fifo":
            folder.rename(elsewhere)
            os.mkfifo(folder)
        case "fifo within":
            (folder / "state.json").unlink()
            os.mkfifo(folder / "state.json")
        case "unlisted":
            (folder / "state.json").unlink()
            (folder / "state.json").symlink_to(folder / "ask.json")
    seen = folder.lstat()
    moved = await set_aside(premises, folder.name)
    assert (moved.lstat().st_ino, moved.lstat().st_mode) == (seen.st_ino, seen.st_mode)
    assert list(premises.mailboxes.iterdir()) == []
    if elsewhere.exists():
        assert (elsewhere / "state.json").read_bytes() == b"{"


@pytest.mark.parametrize("stands", ["link", "file"])
async def test_what_stands_where_they_are_kept_is_left_alone(
    premises: Premises, tmp_path: Path, stands: str
) -> None:
    folder = await damaged(premises)
    if stands == "link":
        premises.set_aside.symlink_to(tmp_path)
    else:
        premises.set_aside.write_text("mine")
    with pytest.raises(HerdError) as caught:
        await set_aside(premises, folder.name)
    assert caught.value.trouble.category is Category.INTERNAL_FAILURE
    assert folder.is_dir()


async def test_it_stays_while_somebody_is_at_work_in_it(premises: Premises) -> None:
    folder = await damaged(premises)
    mailbox = box_of(premises)
    categories = []

    async def be_refused() -> None:
        categories.append((await refusal(premises, folder.name)).trouble.category)

    for lock in (mailbox.claim, mailbox.claim_start):
        async with lock(), trio.open_nursery() as nursery:
            nursery.start_soon(be_refused)
    assert categories == [Category.AGENT_BUSY] * 2
    await set_aside(premises, folder.name)


async def test_it_stays_while_an_agent_runs_that_may_live_in_it(premises: Premises) -> None:
    folder = await damaged(premises)
    async with recorded_launch(premises, OTHER, own()):
        error = await refusal(premises, folder.name)
        assert error.trouble.category is Category.AGENT_BUSY
        assert f"process {os.getpid()}" in str(error)
    await set_aside(premises, folder.name)


async def test_agents_of_other_mailboxes_do_not_live_in_it(premises: Premises) -> None:
    folder = await damaged(premises)
    other = await Full.at(premises, "tester")
    async with recorded_launch(premises, other.state.of.generation, own()):
        await set_aside(premises, folder.name)


def leave_launch(premises: Premises, record: bytes | None) -> Path:
    folder = premises.launches / OTHER
    folder.mkdir(parents=True)
    if record is not None:
        (folder / "launch.json").write_bytes(record)
    return folder


def of_a_dead_host() -> bytes:
    with blocking_allowed(), subprocess.Popen(["sleep", "60"]) as child:
        found = identify(child.pid)
        child.kill()
    assert found is not None
    return json.dumps({"v": 1, "mark": "a" * 32, "host": asdict(stamp(found))}).encode()


@pytest.mark.parametrize("record", [lambda: None, of_a_dead_host])
async def test_agents_of_dead_hosts_do_not_live_in_it(
    premises: Premises, record: Callable[[], bytes | None]
) -> None:
    folder = await damaged(premises)
    leave_launch(premises, record())
    await set_aside(premises, folder.name)


async def test_a_launch_that_cannot_be_read_may_be_of_somebody_who_lives_in_it(
    premises: Premises,
) -> None:
    folder = await damaged(premises)
    launch = leave_launch(premises, b"{")
    assert str(launch / "launch.json") in str(await refusal(premises, folder.name))


async def test_one_that_becomes_readable_meanwhile_is_left(premises: Premises) -> None:
    full = await Full.at(premises)
    folder, state = full.mailbox.folder, full.mailbox.folder / "state.json"
    good = state.read_bytes()
    state.write_bytes(b"{")
    async with trio.open_nursery() as nursery, full.mailbox.claim():

        async def try_it() -> None:
            with pytest.raises(HerdError) as caught:
                await set_aside(premises, folder.name)
            assert caught.value.trouble.category is Category.AGENT_BUSY

        nursery.start_soon(try_it)
        while not (premises.locks / f"start-{folder.name}.lock").exists():
            await trio.lowlevel.checkpoint()
        state.write_bytes(good)
    assert folder.is_dir()


async def test_whoever_dies_meanwhile_leaves_it_whole_in_one_of_the_two_places(
    tmp_path: Path,
) -> None:
    whole = await damaged(premises_at(tmp_path / "whole"))
    before = tree(whole)
    with passed_points() as points:
        await set_aside(premises_at(tmp_path / "whole"), whole.name)
    assert len(points) == 2
    for point in points:
        premises = premises_at(tmp_path / point)
        folder = await damaged(premises)
        with dying_at(point) as death, suppress(Died):
            await set_aside(premises, folder.name)
        assert death.happened
        moved = premises.set_aside / folder.name
        assert folder.exists() is not moved.exists()
        if folder.exists():
            await set_aside(premises, folder.name)
        assert tree(moved) == before


async def test_move_that_fails_says_why_and_leaves_it(premises: Premises) -> None:
    folder = await damaged(premises)
    with failing_at("herd.mailbox.set-aside"), pytest.raises(HerdError) as caught:
        await set_aside(premises, folder.name)
    assert caught.value.trouble.category is Category.INTERNAL_FAILURE
    assert folder.name in str(caught.value)
    assert folder.is_dir()
