"""The reference of the tools is whole and true: rules, answers, refusals and examples."""

import re
from collections.abc import Mapping
from typing import Any, get_args

import pytest

from agents.herdsman.tool_names import ASK_OWNER, HERD_TOOL_NAMES
from engine.core.errors import (
    ConflictError,
    CorruptionError,
    ExternalError,
    PinataError,
    UsageError,
)
from engine.core.outcome import Status
from pinata import app
from pinata.app import TOOL_NAMES
from pinata.work.receipt import ReceiptStatus
from tests.support.reference import (
    FOLDER,
    HERD_PAGES,
    Page,
    Shapes,
    differences,
    refusal_faults,
    rule_faults,
)
from tests.support.story import ANY, Story, tell_story

INDEX = Page("index.md")
PAGES = {name: Page(f"tools/{name}.md") for name in TOOL_NAMES}
EXTENDED = {
    "answers.md#saved-result": "answers.md#task-summary",
    "tools/pinata_verify.md#answer": "answers.md#receipt",
    "tools/pinata_agents.md#one-definition": "tools/pinata_agents.md#a-definition",
}
KINDS: Mapping[str, type[PinataError]] = {
    "usage": UsageError,
    "conflict": ConflictError,
    "external": ExternalError,
    "corruption": CorruptionError,
}
RUN_STATUSES = {status.value for status in (Status.RUNNING, Status.SUCCEEDED, Status.FAILED)}
STATUSES = {
    "pinata_run": RUN_STATUSES | {Status.CANCELLED.value},
    "pinata_verify": set(get_args(ReceiptStatus)),
    "pinata_integrate": {"verified", "applied_unverified", "verification_failed"},
    "pinata_rollback": {"rolled_back"},
}
# What takes bad timing to come up: an edit while a reader reads, and a process that nobody can end.
NEVER_SEEN = {
    ("answers.md#task-summary", "checkoutChanged?"),
    ("answers.md#check-evidence", "notes?"),
}


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    return tell_story(tmp_path_factory.mktemp("story"))


@pytest.fixture(scope="module")
def schemas() -> Mapping[str, Any]:
    return {each["name"]: each["parameters"] for each in app.describe_tools()}


@pytest.mark.parametrize("name", TOOL_NAMES)
def test_parameters_are_those_of_the_schema(name: str, schemas: Mapping[str, Any]) -> None:
    assert list(rule_faults(PAGES[name].rows("Parameters"), schemas[name])) == []


def test_what_stands_inside_of_the_parameters_is_told_too(schemas: Mapping[str, Any]) -> None:
    schema = schemas["pinata_run"]
    inner = {
        "Fields of a task": schema["properties"]["tasks"]["items"],
        "Fields of a check": schema["$defs"]["CheckRequest"],
        "Fields of a model": schema["$defs"]["ModelRequest"],
        "Settings": schema["properties"]["config"],
        "Limits": schema["$defs"]["LimitsRequest"],
    }
    found = {head: list(rule_faults(PAGES["pinata_run"].rows(head), inner[head])) for head in inner}
    assert found == {head: [] for head in inner}


def test_every_tool_has_its_page_and_stands_in_the_index() -> None:
    names = [*TOOL_NAMES, *HERD_TOOL_NAMES, ASK_OWNER]
    assert {path.stem for path in (FOLDER / "tools").iterdir()} == set(names)
    listed = re.findall(r"^\| \[(\w+)\]\(tools/(\w+)\.md\)", INDEX.text, re.MULTILINE)
    assert listed == [(name, name) for name in names]


def test_every_status_is_told_with_what_to_do_next() -> None:
    told = {name: {row.name for row in PAGES[name].rows("Statuses")} for name in STATUSES}
    assert told == STATUSES


@pytest.mark.slow
@pytest.mark.unmeasured
def test_examples_are_what_the_calls_are_answered(story: Story) -> None:
    shown = {name: PAGES[name].json("answer") for name in TOOL_NAMES}
    faults = {name: list(differences(shown[name], story.examples[name])) for name in TOOL_NAMES}
    assert faults == {name: [] for name in TOOL_NAMES}


@pytest.mark.slow
@pytest.mark.unmeasured
def test_answers_have_the_fields_that_are_described_and_no_others(story: Story) -> None:
    shapes = Shapes(EXTENDED)
    faults = {fault for each in story.told for fault in shapes.faults(each.shape, each.answer)}
    assert sorted(faults) == []
    assert shapes.unseen(but_for=HERD_PAGES) == NEVER_SEEN


def kind_of(error: PinataError) -> str:
    return next(kind for kind, type_ in KINDS.items() if isinstance(error, type_))


@pytest.mark.slow
@pytest.mark.unmeasured
def test_refusals_are_what_is_said(story: Story) -> None:
    tables = {name: page.rows("Refused") for name, page in PAGES.items()}
    tables[ANY] = INDEX.rows("Refused by every tool")
    said = story.refused
    faults = {
        name: list(refusal_faults(rows, [(kind_of(each), str(each)) for each in said[name]]))
        for name, rows in tables.items()
    }
    assert faults == {name: [] for name in tables}


def test_pages_are_not_wider_than_can_be_read() -> None:
    wide = [
        f"{path.relative_to(FOLDER)}: {line}"
        for path in sorted(FOLDER.rglob("*.md"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if len(line) > (130 if line.startswith("|") else 110)
    ]
    assert wide == []
