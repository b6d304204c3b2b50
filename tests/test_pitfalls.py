"""Every known pitfall names the tests that fail when it comes back, or what will bring them."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.support.named_tests import exists

ROOT = Path(__file__).resolve().parents[1]
Pitfall = dict[str, object]


@pytest.fixture(scope="module")
def pitfalls() -> dict[str, Pitfall]:
    with (ROOT / "tests" / "pitfalls.toml").open("rb") as file:
        return tomllib.load(file)


def test_every_pitfall_has_a_name_and_a_sentence_of_its_own(pitfalls: dict[str, Pitfall]) -> None:
    assert [name for name in pitfalls if not re.fullmatch(r"[a-z]+(-[a-z]+)+", name)] == []
    sentences = [str(pitfall["says"]) for pitfall in pitfalls.values()]
    assert [text for text in sentences if not re.fullmatch(r"[A-Z][^\n]{15,140}\.", text)] == []
    assert len(set(sentences)) == len(sentences)


def test_every_pitfall_names_its_tests_or_what_will_bring_them(
    pitfalls: dict[str, Pitfall],
) -> None:
    odd = [
        name for name, pitfall in pitfalls.items() if ("tests" in pitfall) == ("later" in pitfall)
    ]
    assert odd == []


def test_every_test_that_is_named_exists(pitfalls: dict[str, Pitfall]) -> None:
    missing = []
    for name, pitfall in pitfalls.items():
        tests = pitfall.get("tests", [])
        assert isinstance(tests, list)
        missing += [f"{name}: {test}" for test in tests if not exists(str(test))]
        assert tests or "later" in pitfall, name
    assert missing == []
