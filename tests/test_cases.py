"""Every promised behaviour is in cases.toml, with tests that exist or with what will bring it."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.support.named_tests import exists

ROOT = Path(__file__).resolve().parents[1]

# How many numbered cases each area has; numbers start at 1 and have no gaps.
AREAS = """
  VAL 15, OWN 6, TOOL 6, SCH 6, LIM 3, BUD 8, BRF 5, SUB 5, GRD 5, LIVE 4, SNAP 5, SET 4, INC 1,
  CAP 3, WRI 6, CHK 7, REV 5, REP 6, STA 6, CHG 6, INT 12, VER 7, ROL 4, BG 8, STO 6, CFG 5,
  AGT 7, GC 6, CLI 5, VIEW 5, PERF 2,
  ID 6, MB 9, PR 11, PH 8, OW 7, ST 10, DG 11, CN 9, CT 12, AK 9, RS 9, RD 9, RF 8, FI 9, CL 9,
  IN 5, TR 6, HA 10, RT 6, DF 8, CF 3, SV 25, UI 6, RR 4, ER 3
"""
EXPECTED = [
    f"{area}-{number}"
    for area, count in (entry.split() for entry in AREAS.split(","))
    for number in range(1, int(count) + 1)
]

Case = dict[str, object]


@pytest.fixture(scope="module")
def cases() -> dict[str, Case]:
    with (ROOT / "tests" / "cases.toml").open("rb") as file:
        return tomllib.load(file)


def test_every_case_is_listed_in_order_and_no_other(cases: dict[str, Case]) -> None:
    assert list(cases) == EXPECTED


def test_every_case_says_what_it_is_in_one_sentence_of_its_own(cases: dict[str, Case]) -> None:
    sentences = [case.get("says") for case in cases.values()]
    odd = [text for text in sentences if not re.fullmatch(r"[A-Z][^\n]{15,140}\.", str(text))]
    assert odd == []
    assert len(set(sentences)) == len(sentences)


def test_every_case_has_tests_or_the_capability_that_will_bring_it(cases: dict[str, Case]) -> None:
    assert [name for name, case in cases.items() if not _is_well_formed(case)] == []


def test_every_test_that_a_case_names_exists(cases: dict[str, Case]) -> None:
    named = {(name, test) for name, case in cases.items() for test in _tests(case)}
    assert sorted(pair for pair in named if not exists(pair[1])) == []


def _tests(case: Case) -> list[str]:
    tests = case.get("tests", [])
    assert isinstance(tests, list)
    return [str(test) for test in tests]


def _is_well_formed(case: Case) -> bool:
    if set(case) == {"says", "tests"}:
        tests = _tests(case)
        return bool(tests) and len(set(tests)) == len(tests)
    later = case.get("later")
    return (
        set(case) == {"says", "later"}
        and re.fullmatch(r"[a-z][a-z' -]{3,60}", str(later)) is not None
    )
