"""The table of repositories in the documentation and the tests that hold it are one."""

import ast
import re
from pathlib import Path

import pytest

from tests.support.matrix import NOTICED, REFUSED, WORKS

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "repositories.md"
ROW = re.compile(r"^\| (?P<what>.+?) \| (?P<does>.+?) \| `(?P<test>[^`]+)` \|$")
HEADS = ("| repository |", "| what it does |", "| --- |")
ROWS: dict[str, list[str]] = {
    "works": list(WORKS),
    "noticed": list(NOTICED),
    "refused": list(REFUSED),
}


def table() -> list[tuple[str, str, str]]:
    lines = [line for line in DOCUMENT.read_text().splitlines() if line.startswith("|")]
    rows = [ROW.fullmatch(line) for line in lines if not line.startswith(HEADS)]
    assert all(rows)
    return [(row["what"], row["does"], row["test"]) for row in rows if row is not None]


def functions(path: Path) -> set[str]:
    return {
        node.name
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


@pytest.mark.parametrize("kind", ROWS)
def test_every_row_that_is_tested_stands_in_the_table_once_and_no_other(kind: str) -> None:
    named = [test.removeprefix(f"{kind}[")[:-1] for *_, test in table() if test.startswith(kind)]
    assert sorted(named) == sorted(ROWS[kind])


def test_every_other_row_names_a_test_that_exists() -> None:
    for _, _, test in table():
        if "::" in test:
            file, _, function = test.partition("::")
            assert function in functions(ROOT / file), test
        elif "[" in test:
            assert test.partition("[")[0] in {*ROWS, "hidden"}
        else:
            assert (ROOT / test).is_file()


def test_everything_that_a_builder_could_try_names_its_test() -> None:
    named = {f"test_{test[7:-1]}" for *_, test in table() if test.startswith("hidden[")}
    assert named <= functions(Path(__file__).with_name("test_nothing_hides.py"))


def test_the_table_says_works_or_refused_where_the_tests_do() -> None:
    for what, does, test in table():
        kind = test.partition("[")[0]
        if kind in {"works", "refused"}:
            assert does.startswith(kind), what
        if kind == "noticed":
            assert does.startswith(("works", "the same")), what
    assert len({what for what, *_ in table()}) == len(table())
