import re

import pytest
from hypothesis import given, strategies as st

from agents.filetools.pattern import LinePattern

PATTERNS = [
    "a",
    "^a",
    "a$",
    "^$",
    "a*",
    "a\\s*b",
    "\\s",
    "[^a]",
    "(?s)a.b",
    "\\Aa",
    "a\\z",
    "\\bab\\b",
    "(?i)A",
    "a|^b",
    "",
]


def matching(pattern: str, text: bytes) -> list[int]:
    return list(LinePattern(pattern, literal=False, ignore_case=False).matching_lines(text))


@given(st.sampled_from(PATTERNS), st.text("ab \n", max_size=12).map(str.encode))
def test_exactly_the_lines_that_match_by_themselves_are_found(pattern: str, text: bytes) -> None:
    lines = text.removesuffix(b"\n").split(b"\n") if text else []
    single = re.compile(pattern.replace("\\z", "\\Z").encode())
    assert matching(pattern, text) == [n for n, line in enumerate(lines) if single.search(line)]


@pytest.mark.parametrize("pattern", ["(?i-s)A", "(?-m:^a$)"])
def test_flags_that_are_switched_off_stay_off(pattern: str) -> None:
    assert matching(pattern, b"b\na\n") == [1]


def test_invalid_utf8_does_not_stop_a_search() -> None:
    assert matching("needle", b"\xff needle\nno\nneedle \xfe") == [0, 2]


def test_a_literal_pattern_may_hold_any_sign() -> None:
    pattern = LinePattern("\\A(?-[é", literal=True, ignore_case=False)
    assert list(pattern.matching_lines("x\n\\A(?-[é\n".encode())) == [1]
