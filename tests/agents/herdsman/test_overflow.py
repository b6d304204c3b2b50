"""Tests of `agents.herdsman.overflow`."""

import os
from pathlib import Path

import pytest

from agents.herdsman.overflow import MODEL_LIMIT_BYTES, Shown, show_to_model
from agents.herdsman.premises import Premises
from tests.support.clock import FakeClock


@pytest.fixture
def premises(tmp_path: Path) -> Premises:
    return Premises(tmp_path / "herd", FakeClock(), "a test")


async def test_an_answer_that_a_model_can_take_is_whole(premises: Premises) -> None:
    text = "ä" * (MODEL_LIMIT_BYTES // 2)
    shown = await show_to_model(premises, text)
    assert (shown, dict(shown.details)) == (Shown(text), {})
    assert not premises.root.exists()


async def test_a_longer_answer_is_cut_and_its_whole_kept_for_this_user_alone(
    premises: Premises,
) -> None:
    text = "ä" * MODEL_LIMIT_BYTES
    shown = await show_to_model(premises, text)
    assert shown.file is not None
    assert shown.file.read_text("utf-8") == text
    assert shown.file.stat().st_mode & 0o777 == 0o600
    assert shown.file.parent.stat().st_mode & 0o777 == 0o700
    assert shown.details == {"truncated": True, "full_output_path": str(shown.file)}
    head, _, note = shown.text.partition("\n")
    assert text.startswith(head)
    left_out = len(text.encode()) - len(head.encode())
    assert note == f"[... {left_out} bytes left out; all of it is in {shown.file}]"
    assert MODEL_LIMIT_BYTES - 200 < len(shown.text.encode()) <= MODEL_LIMIT_BYTES


async def test_an_answer_that_cannot_be_kept_is_cut_all_the_same(premises: Premises) -> None:
    premises.root.mkdir()
    (premises.root / "runtime").write_text("in the way")
    shown = await show_to_model(premises, "x" * (MODEL_LIMIT_BYTES + 1))
    assert shown.was_cut
    assert shown.text.endswith("bytes left out; it could not be kept]")
    assert shown.details == {"truncated": True}


async def test_a_folder_that_is_a_link_is_not_written_into(
    premises: Premises, tmp_path: Path
) -> None:
    premises.overflow.parent.mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    premises.overflow.symlink_to(tmp_path / "elsewhere")
    shown = await show_to_model(premises, "x" * (MODEL_LIMIT_BYTES + 1))
    assert shown.file is None
    assert list((tmp_path / "elsewhere").iterdir()) == []


async def test_the_oldest_answers_make_room_for_new_ones(premises: Premises) -> None:
    text = "x" * (MODEL_LIMIT_BYTES + 1)
    files = []
    for number in range(34):
        shown = await show_to_model(premises, text)
        assert shown.file is not None
        os.utime(shown.file, (number, number))
        files.append(shown.file)
    last = (await show_to_model(premises, text)).file
    assert set(premises.overflow.iterdir()) == {*files[3:], last}
