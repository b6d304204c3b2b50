"""The pages for people say what is so: their examples are accepted, their lists are whole."""

import json
import re
from pathlib import Path

import pytest

from engine.core.outcome import Status
from engine.core.spec import Kind
from engine.records.job import JobRequest
from engine.records.task import TaskRequest
from pinata.faces.arguments import parse
from tests.support.jobs import accepted
from tests.support.reader import ROOT, blocks, page, rows, section

JOBS = page("jobs.md")
COMMANDS = page("commands.md")
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")])


def first_cells(heading: str) -> set[str]:
    """Return what stands in backticks in the first column of the table below a heading."""
    return {
        name for row in rows(section(JOBS, heading)) for name in re.findall(r"`([^`]+)`", row[0])
    }


def test_examples_of_jobs_are_accepted() -> None:
    specs = [accepted(json.loads(block.text)) for block in blocks(JOBS, "json")]
    kinds = [[task.kind for task in spec.tasks] for spec in specs]
    reader, writer, reviewer = Kind
    assert kinds == [
        [writer, reviewer],
        [reader],
        [reader, writer, reviewer, writer, reviewer],
        [reviewer, reviewer],
    ]
    assert not [spec.notices for spec in specs[:3] if spec.notices]


def test_checks_of_examples_leave_no_compiled_python_behind() -> None:
    calls = re.findall(r'"argv": \["python3", (.*?)\]', JOBS)
    assert calls
    assert [call for call in calls if not call.startswith('"-B"')] == []


@pytest.mark.parametrize(
    ("heading", "model", "later"),
    [
        ("The run", JobRequest, {"background", "survive"}),
        ("A task", TaskRequest, set()),
    ],
    ids=["run", "task"],
)
def test_every_field_is_described(
    heading: str, model: type[JobRequest] | type[TaskRequest], later: set[str]
) -> None:
    fields = {field.alias or name for name, field in model.model_fields.items()}
    assert first_cells(heading) == fields - later


def test_every_final_status_is_described() -> None:
    assert first_cells("What becomes of a task") == {s.value for s in Status if s.is_final}


def test_every_command_that_is_described_exists() -> None:
    named = re.findall(r"^\| \[`pinata ([a-z]+)([^`]*)`", COMMANDS, re.MULTILINE)
    assert {name for name, _ in named} == {
        "run",
        "runs",
        "transcript",
        "view",
        "install",
        "changes",
        "verify",
        "status",
        "logs",
        "agents",
        "integrate",
        "rollback",
        "resume",
        "rerun",
        "repair",
        "steer",
        "cancel",
        "gc",
        "herd",
        "doctor",
        "tools",
        "mcp",
        "pi",
        "host",
    }
    for name, rest in named:
        words = [word for word in rest.split() if not word.startswith("[")]
        assert parse([name, *words]).command == name


def anchors(path: Path) -> set[str]:
    """Return what links to the headings of a page are called."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in headings}


@pytest.mark.parametrize("path", PAGES, ids=[str(path.relative_to(ROOT)) for path in PAGES])
def test_links_lead_somewhere(path: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        if "://" in link:
            continue
        name, _, heading = link.partition("#")
        target = path.parent / name if name else path
        assert target.exists(), link
        assert not heading or heading in anchors(target), link


def test_index_leads_to_every_page() -> None:
    linked = set(re.findall(r"\]\(([\w-]+\.md)\)", page("index.md")))
    assert linked == {path.name for path in (ROOT / "docs").glob("*.md")} - {"index.md"}
