"""The script on the page about codemode does what the page says."""

from pathlib import Path

import pytest

from tests.support.reader import blocks, page
from tests.support.scripts import Scripter

(EXAMPLE,) = blocks(page("codemode.md"), "python")


@pytest.fixture
def scout(tmp_path: Path) -> Scripter:
    return Scripter.create(tmp_path)


async def test_example_goes_through_every_file_that_there_is(scout: Scripter) -> None:
    scout.shop.put("pyproject.toml", 'version = "1"\n')
    scout.shop.put("docs/empty.toml", "")
    scout.shop.put("docs/odd.toml", b"\0")
    shown = sorted((await scout.text(EXAMPLE.text)).splitlines())
    assert shown[:1] + shown[2:] == ["docs/empty.toml 0", "pyproject.toml 1"]
    assert shown[1].startswith("docs/odd.toml not read: ")


async def test_example_says_nothing_where_there_is_nothing(scout: Scripter) -> None:
    scout.shop.put("a.txt", "")
    assert await scout.text(EXAMPLE.text) == "(no output)"
