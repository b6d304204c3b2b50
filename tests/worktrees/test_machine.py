from pathlib import Path

import pytest

from engine.core.errors import ExternalError
from worktrees.machine import in_thread


async def test_an_answer_comes_back_and_a_refusal_names_its_place(tmp_path: Path) -> None:
    assert await in_thread("{}-{last}".format, 1, last=2) == "1-2"
    with pytest.raises(ExternalError, match=r"No such file or directory: .*missing"):
        await in_thread((tmp_path / "missing").read_bytes)


def refuse() -> None:
    raise OSError("odd")


async def test_a_refusal_without_a_place_is_told_too() -> None:
    with pytest.raises(ExternalError, match=r"^odd$"):
        await in_thread(refuse)
