"""Definitions and settings of one's own work in runs as the bundled ones do."""

import json
from pathlib import Path

import pytest

from engine.core.errors import UsageError
from engine.core.ids import RunId
from pinata import app
from tests.support.customs import (
    READER,
    REVIEWER,
    WRITER,
    agent_dir,
    define,
    define_for_user,
    trust,
)
from tests.support.projects import (
    Project,
    approves,
    builder,
    reports,
    reviewer,
    scout,
    shell,
    statuses,
    submits,
)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, {"a.txt": "one\n"})


async def refusal(project: Project, *tasks: dict[str, object], **fields: object) -> str:
    with pytest.raises(UsageError) as caught:
        await project.run(tasks, {}, **fields)
    assert project.runs == []
    return str(caught.value)


async def test_custom_writer_obeys_the_rules_of_the_bundled_one(project: Project) -> None:
    define_for_user(project, "author", WRITER)
    author = scout("fix") | {"agent": "author"}
    told = await refusal(project, author)
    assert (
        told == "task fix: ownership is missing; author is a writer and must own at least one "
        "relative path, such as src/login"
    )
    bundled = await refusal(project, scout("fix") | {"agent": "builder"})
    assert told == bundled.replace("builder", "author")
    told = await refusal(project, builder("fix", "a.txt") | {"agent": "author"})
    assert told == ("approval is missing; task fix may change files, so say who approved that")


@pytest.mark.slow
async def test_approval_of_a_custom_reviewer_counts(project: Project) -> None:
    define(project, "author", WRITER)
    define_for_user(project, "critic", REVIEWER)
    trust(project)
    answer = await project.run(
        [
            builder("fix", "a.txt") | {"agent": "author"},
            reviewer("judge", "fix") | {"agent": "critic"},
        ],
        {
            "fix": [shell("echo two > a.txt"), submits(changedFiles=["a.txt"])],
            "judge": [approves()],
        },
        approval="the test says so",
    )
    assert statuses(answer) == {"fix": "succeeded", "judge": "succeeded"}
    applied = await project.call("pinata_integrate", {"run": answer["run"]})
    assert applied["status"] == "applied_unverified"
    assert (project.repo.root / "a.txt").read_text() == "two\n"


async def test_task_that_names_what_cannot_be_used_is_refused_with_the_reason(
    project: Project,
) -> None:
    path = define_for_user(project, "digger", READER.replace("kind", "tools: [read, bash]\nkind"))
    told = await refusal(project, scout("look") | {"agent": "digger"})
    assert told.startswith(
        f'task look: agent: "digger" is not available: {path}: tools: a reader may not have bash; '
    )
    torn = define_for_user(project, "torn", "nothing")
    told = await refusal(project, scout("look") | {"agent": "torn"})
    assert told.startswith(f'task look: agent: "torn" is not available: {torn}: must begin with')
    told = await refusal(project, scout("look") | {"agent": "implementer"})
    assert told.startswith(
        'task look: agent: "implementer" is not available: has no kind, so it is for managed '
    )


async def test_run_heeds_a_trusted_project_and_says_what_it_does(project: Project) -> None:
    define(project, "scout", "---\nthinking: high\n---\n")
    file = project.repo.write(".pi/pinata.json", '{"limits": {"taskMs": 77000}, "setup": "make"}')
    trust(project)
    (agent_dir(project) / "pinata.json").write_text('{"limits": {"maxTurns": 9}, "session": 1}')
    answer = await project.run([scout("look")], {"look": [reports()]})
    overlaid, retired = answer["notices"][:2]
    assert overlaid == "agent scout: the project definition overlays the preset one"
    user_file = agent_dir(project) / "pinata.json"
    assert retired == f"{user_file}: session no longer means anything and is ignored; remove it"
    assert str(file) not in str(answer["notices"])
    record = json.loads((Path(answer["dir"]) / "run.json").read_text())
    limits = record["spec"]["config"]["limits"]
    assert (limits["task_ms"], limits["max_turns"]) == (77000, 9)
    assert record["definitions"]["scout"]["thinking"] == "high"


async def test_run_in_another_folder_heeds_the_project_of_that_folder(
    project: Project, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = Project.create(tmp_path / "other", {"b.txt": "b\n"})
    other.repo.write(".pi/pinata.json", '{"colour": 1}')
    project.repo.write(".pi/pinata.json", '{"flavour": 1}')
    decisions = {str(one.repo.root): True for one in (project, other)}
    (agent_dir(project) / "trust.json").write_text(json.dumps(decisions))
    told = await refusal(project, scout("look"), cwd=str(other.repo.root))
    assert told.startswith(f'{other.repo.root}/.pi/pinata.json: unknown field "colour"; ')


async def test_project_that_is_not_trusted_changes_nothing(project: Project) -> None:
    define(project, "scout", "---\nthinking: high\n---\n")
    project.repo.write(".pi/pinata.json", '{"colour": 1}')
    answer = await project.run([scout("look")], {"look": [reports()]})
    why = "the project is not trusted; pass --trust-project, or decide with /trust in Pi"
    folder = project.repo.root / ".pi"
    assert [said for said in answer["notices"] if "ignored" in said] == [
        f"{folder / 'pinata.json'} is ignored: {why}",
        f"{folder / 'agents'} is ignored: {why}",
    ]
    record = json.loads((Path(answer["dir"]) / "run.json").read_text())
    assert record["definitions"]["scout"]["thinking"] is None


@pytest.mark.slow
async def test_setup_of_the_project_is_told_when_the_run_is_opened(project: Project) -> None:
    file = project.repo.write(".pi/pinata.json", '{"setup": "true"}')
    trust(project)
    answer = await project.run([builder("fix", "a.txt")], {"fix": [submits()]})
    shown = f'{file} has each writer\'s worktree prepared with "true"'
    assert project.recorder.notices[0] == shown
    assert shown in answer["notices"]


@pytest.mark.slow
async def test_run_taken_over_keeps_its_definitions_and_says_that_they_changed(
    project: Project,
) -> None:
    path = define_for_user(project, "historian", READER)
    task = scout("look") | {"agent": "historian"}
    answer = await project.run([task], {"look": [reports()]})
    log = Path(answer["dir"]) / "events.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:-1]))
    path.write_text(READER.replace("Look back.", "Look ahead."))
    context = app.build_context(project.env, project.repo.root, project.recorder)
    again = await app.resume_run(context, RunId(answer["run"]))
    assert (again["status"], again["notices"][-1]) == (
        "succeeded",
        (
            "agent historian: its definition has changed since the run started, "
            "which goes on with the one that it started with"
        ),
    )
    settled = await app.resume_run(context, RunId(answer["run"]))
    assert "historian" not in str(settled.get("notices"))


@pytest.mark.slow
async def test_repaired_run_keeps_its_definitions_and_says_that_they_changed(
    project: Project,
) -> None:
    path = define_for_user(project, "author", WRITER)
    answer = await project.run(
        [builder("fix", "a.txt") | {"agent": "author"}],
        {
            "fix": [shell("echo two > a.txt"), submits(changedFiles=["a.txt"])],
            "fix@2": [submits(changedFiles=["a.txt"])],
        },
        approval="the test says so",
    )
    path.unlink()
    arguments = {"run": answer["run"], "task": "fix", "feedback": "once more"}
    again = await project.call("pinata_repair", arguments)
    assert statuses(again) == {"fix": "succeeded"}
    assert any(said.startswith("agent author: its definition has") for said in again["notices"])
