"""Tests of `agents.herdsman.overflow`."""

import os
from pathlib import Path
from typing import Any

import pytest

from agents.herdsman.overflow import MODEL_LIMIT_BYTES, cut_for_model, keep_overflow
from agents.herdsman.premises import Premises
from tests.support.clock import FakeClock


@pytest.fixture
def premises(tmp_path: Path) -> Premises:
    return Premises(tmp_path / "herd", FakeClock(), "a test")


async def test_an_answer_that_a_model_can_take_is_whole(premises: Premises) -> None:
    text = "ä" * (MODEL_LIMIT_BYTES // 2)
    told = await keep_overflow(premises, text)
    assert told == {}
    assert cut_for_model(text, told) == text
    assert not premises.root.exists()


async def test_a_longer_answer_is_cut_and_its_whole_kept_for_this_user_alone(
    premises: Premises,
) -> None:
    text = "ä" * MODEL_LIMIT_BYTES
    told = await keep_overflow(premises, text)
    file = kept(told)
    assert told == {"truncated": True, "full_output_path": str(file)}
    assert file.read_text("utf-8") == text
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    shown = cut_for_model(text, told)
    head, _, note = shown.partition("\n")
    assert text.startswith(head)
    left_out = len(text.encode()) - len(head.encode())
    assert note == f"[... {left_out} bytes left out; all of it is in {file}]"
    assert MODEL_LIMIT_BYTES - 200 < len(shown.encode()) <= MODEL_LIMIT_BYTES


async def test_an_answer_that_cannot_be_kept_is_cut_all_the_same(premises: Premises) -> None:
    premises.root.mkdir()
    (premises.root / "runtime").write_text("in the way")
    text = "x" * (MODEL_LIMIT_BYTES + 1)
    told = await keep_overflow(premises, text)
    assert told == {"truncated": True}
    assert cut_for_model(text, told).endswith("bytes left out; it could not be kept]")


async def test_a_folder_that_is_a_link_is_not_written_into(
    premises: Premises, tmp_path: Path
) -> None:
    premises.overflow.parent.mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    premises.overflow.symlink_to(tmp_path / "elsewhere")
    assert await keep_overflow(premises, "x" * (MODEL_LIMIT_BYTES + 1)) == {"truncated": True}
    assert list((tmp_path / "elsewhere").iterdir()) == []


async def test_the_oldest_answers_make_room_for_new_ones(premises: Premises) -> None:
    text = "x" * (MODEL_LIMIT_BYTES + 1)
    files = []
    for number in range(34):
        file = kept(await keep_overflow(premises, text))
        os.utime(file, (number, number))
        files.append(file)
    last = kept(await keep_overflow(premises, text))
    assert set(premises.overflow.iterdir()) == {*files[3:], last}


def kept(told: dict[str, Any]) -> Path:
    """Return the file that an answer tells of."""
    return Path(told["full_output_path"])
