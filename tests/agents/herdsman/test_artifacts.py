"""Tests of `agents.herdsman.artifacts`."""

import json
import os
import stat
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from agents.herdsman.artifacts import (
    PROVENANCE_PREFIX,
    Provenance,
    artifact_path,
    reserve_index,
    save_artifact,
)
from agents.herdsman.errors import Category, HerdError
from agents.herdsman.identity import Label, RequestId
from agents.herdsman.premises import Premises
from agents.herdsman.references import MOST_INDEX
from engine.system import faults
from tests.support.deaths import Died, dying_at, passed_points
from tests.support.herd_boxes import premises_at, tree
from tests.support.herd_records import TASK, session, uid

SCOUT = Label("scout")
WORK = Provenance(SCOUT, "reader", "/tree", session("scout"))


@pytest.fixture
def premises(tmp_path: Path) -> Premises:
    return premises_at(tmp_path)


async def refused(call: Awaitable[object], category: Category) -> HerdError:
    with pytest.raises(HerdError) as caught:
        await call
    assert caught.value.trouble.category is category
    return caught.value


async def test_a_result_is_kept_as_it_is_below_whose_work_it_is(premises: Premises) -> None:
    text = "two\nlines \r\n\n\N{SNOWMAN}"
    path = await save_artifact(premises, TASK, WORK, text)
    assert path == premises.results / TASK == artifact_path(premises, TASK)
    first, blank, rest = path.read_bytes().decode().split("\n", 2)
    assert json.loads(first.removeprefix(PROVENANCE_PREFIX)) == {
        "agent": "scout",
        "definition": "reader",
        "cwd": "/tree",
        "session": session("scout"),
    }
    assert (blank, rest) == ("", text)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


async def test_whose_work_a_result_is_stays_on_one_line(premises: Premises) -> None:
    crafted = Provenance(SCOUT, "a\nb\N{LINE SEPARATOR}", "/x\ny")
    assert len(crafted.line().splitlines()) == 1
    assert "session" not in crafted.line()


async def test_a_result_handed_on_names_its_first_producer(premises: Premises) -> None:
    first = await save_artifact(premises, TASK, WORK, "found it")
    handed_on = first.read_text("utf-8")
    other = Provenance(Label("tester"), "tester", "/tree")
    second = await save_artifact(premises, RequestId(uid("two")), other, f"I read:\n{handed_on}")
    assert first.read_text("utf-8") == handed_on
    assert WORK.line() in second.read_text("utf-8")


async def test_the_same_again_changes_nothing_and_another_text_is_refused(
    premises: Premises,
) -> None:
    path = await save_artifact(premises, TASK, WORK, "done")
    before = path.stat()
    path.chmod(0o644)
    await save_artifact(premises, TASK, WORK, "done")
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert stat.S_IMODE(after.st_mode) == 0o600
    for text in ("something else", "", "x" * 100_000):
        error = await refused(save_artifact(premises, TASK, WORK, text), Category.INTERNAL_FAILURE)
        assert "another text" in str(error)
    os.truncate(path, 9 << 20)
    await refused(save_artifact(premises, TASK, WORK, "done"), Category.INTERNAL_FAILURE)


@pytest.mark.parametrize("request_", ["../config.json", "", "/etc/passwd", uid("x").upper()])
async def test_a_result_is_named_by_an_id_alone(premises: Premises, request_: str) -> None:
    with pytest.raises(HerdError) as caught:
        artifact_path(premises, RequestId(request_))
    assert caught.value.trouble.category is Category.INVALID_REQUEST


async def test_half_of_a_character_is_not_kept(premises: Premises) -> None:
    await refused(save_artifact(premises, TASK, WORK, "\ud83d"), Category.INVALID_REQUEST)
    assert not premises.root.exists()


@pytest.mark.parametrize("kind", ["fifo", "folder", "link"])
async def test_what_else_stands_in_a_results_place_is_told(premises: Premises, kind: str) -> None:
    premises.results.mkdir(parents=True)
    path = premises.results / TASK
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case _:
            path.symlink_to("/etc/hostname")
    await refused(save_artifact(premises, TASK, WORK, "done"), Category.INTERNAL_FAILURE)
    assert [one.name for one in premises.results.iterdir()] == [TASK]


async def test_a_result_is_whole_or_not_there_wherever_its_writer_dies(tmp_path: Path) -> None:
    with passed_points() as points:
        whole = await save_artifact(premises_at(tmp_path / "whole"), TASK, WORK, "done")
    assert len(points) == 4
    for name in points:
        premises = premises_at(tmp_path / name)
        with dying_at(name), suppress(Died):
            await save_artifact(premises, TASK, WORK, "done")
        assert set(tree(premises.results).values()) <= {whole.read_bytes()}
        await save_artifact(premises, TASK, WORK, "done")
        assert tree(premises.results) == {TASK: whole.read_bytes()}


async def test_a_full_disk_is_told(premises: Premises) -> None:
    faults.install("error:herd.artifact.written:1:ENOSPC")
    try:
        error = await refused(
            save_artifact(premises, TASK, WORK, "done"), Category.INTERNAL_FAILURE
        )
        faults.install("error:herd.reservation.made:1:ENOSPC")
        await refused(reserve_index(premises, SCOUT), Category.INTERNAL_FAILURE)
    finally:
        faults.install("")
    assert "No space left on device" in str(error)
    assert tree(premises.results) == {}
    assert await reserve_index(premises, SCOUT) == 2


async def test_numbers_count_from_one_for_each_label(premises: Premises) -> None:
    assert [await reserve_index(premises, SCOUT) for _ in range(3)] == [1, 2, 3]
    assert await reserve_index(premises, Label("tester")) == 1
    path = premises.reservations / "scout" / "3"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert path.read_bytes() == b""


async def test_a_number_known_from_elsewhere_is_passed_over(premises: Premises) -> None:
    assert await reserve_index(premises, SCOUT, 5) == 5
    assert await reserve_index(premises, SCOUT, 3) == 6
    assert await reserve_index(premises, SCOUT, 0) == 7


async def test_a_number_that_was_reserved_is_never_given_again(tmp_path: Path) -> None:
    with passed_points() as points:
        await reserve_index(premises_at(tmp_path / "whole"), SCOUT)
    assert points == ["herd.reservation.made", "herd.reservation.durable"]
    for name in points:
        premises = premises_at(tmp_path / name)
        assert await reserve_index(premises, SCOUT, 4) == 4
        with dying_at(name), suppress(Died):
            await reserve_index(premises, SCOUT)
        assert await reserve_index(premises, SCOUT) == 6


async def test_no_two_of_many_at_once_get_the_same_number(premises: Premises) -> None:
    numbers: list[int] = []

    async def take() -> None:
        numbers.append(await reserve_index(premises, SCOUT))

    async with trio.open_nursery() as nursery:
        for _ in range(12):
            nursery.start_soon(take)
    assert sorted(numbers) == list(range(1, 13))


async def test_a_number_that_was_taken_meanwhile_is_passed_over(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    await reserve_index(premises, SCOUT)
    monkeypatch.setattr(os, "listdir", lambda _: [])
    assert await reserve_index(premises, SCOUT) == 2


async def test_files_that_are_no_numbers_do_not_count(premises: Premises) -> None:
    folder = premises.reservations / "scout"
    folder.mkdir(parents=True)
    for name in ("07", "x", "-3", "1.5", f"{MOST_INDEX + 1}", "9" * 100, "\N{SUPERSCRIPT TWO}"):
        (folder / name).touch()
    (folder / "4").mkdir()
    assert await reserve_index(premises, SCOUT) == 5


async def test_where_no_numbers_are_left_none_is_given(premises: Premises) -> None:
    assert await reserve_index(premises, SCOUT, MOST_INDEX) == MOST_INDEX
    error = await refused(reserve_index(premises, SCOUT), Category.INTERNAL_FAILURE)
    assert "no numbers left" in str(error)


async def test_numbers_that_cannot_be_read_are_not_guessed(premises: Premises) -> None:
    premises.reservations.mkdir(parents=True)
    (premises.reservations / "scout").write_text("no folder")
    await refused(reserve_index(premises, SCOUT), Category.INTERNAL_FAILURE)
