"""Nobody but the owner writes a run's records: whoever does ends the run with the reason."""

import os
import re
from functools import partial
from pathlib import Path

import pytest

from engine.core.errors import CorruptionError, ExternalError
from engine.core.events import AttemptStarted
from engine.core.ids import AttemptId, TaskId
from engine.store import RunFolder
from pinata.work.own_records import OwnRecords
from tests.support.projects import (
    Project,
    builder,
    reports,
    requests_changes,
    reviewer,
    scout,
    shell,
    submits,
)

FIRST = AttemptId(TaskId("fix"), 1)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = RunFolder.create(tmp_path)
    made.run_file.write_text("{}")
    return made


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, {"a.txt": "one\n", "b.txt": "b\n"})


async def test_files_as_they_were_left_are_not_altered(folder: RunFolder) -> None:
    records = OwnRecords(folder)
    await records.adopt()
    paths = (folder.attempt_result_file(FIRST), folder.result_file(FIRST.task))
    for data in (b"1", b"22"):
        await records.write(partial(folder.save_result, FIRST, data), paths, "cannot save")
        assert await records.altered(None) == ()


@pytest.mark.parametrize("name", ["run.json", "results/fix.1.json", "results/fix.json"])
async def test_file_that_somebody_wrote_to_is_named(name: str, folder: RunFolder) -> None:
    records = OwnRecords(folder)
    await records.adopt()
    paths = (folder.attempt_result_file(FIRST), folder.result_file(FIRST.task))
    await records.write(lambda: folder.save_result(FIRST, b"{}"), paths, "cannot save")
    path = folder.path / name
    before = path.stat()
    path.write_bytes(b"[]")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert await records.altered(None) == (name,)
    path.unlink()
    assert await records.altered(None) == (name,)


async def test_write_that_failed_leaves_what_it_left(folder: RunFolder) -> None:
    records, path = OwnRecords(folder), folder.result_file(FIRST.task)

    def broken() -> None:
        path.write_text("half")
        raise OSError("full")

    with pytest.raises(ExternalError, match=r"^cannot save: full$"):
        await records.write(broken, [path], "cannot save")
    assert await records.altered(None) == ()


IN_RUN = 'cd "$(git rev-parse --path-format=absolute --git-common-dir)"/pinata/*/results/..; '
IN_PLACE = "python3 -c \"f=open('events.jsonl','r+b'); d=f.read(); f.seek(0); f.write({})\""


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("sed -i s/so/not/ results/look.json", "results/look.json"),
        ("sed -i s/look/took/ run.json", "run.json"),
        (IN_PLACE.format("d.replace(b'agent_settled', b'agent_started', 1)"), "events.jsonl"),
        ("printf '{}\\n' >> events.jsonl", "events.jsonl"),
        ("rm events.jsonl", "events.jsonl"),
    ],
)
async def test_records_that_an_agent_wrote_to_are_believed_by_nobody(
    command: str, name: str, project: Project
) -> None:
    tasks = [scout("look"), builder("fix", "a.txt", after=["look"]), scout("later", after=["fix"])]
    says = f"cannot be believed: somebody wrote to (.* and )?{re.escape(name)}"
    with pytest.raises((CorruptionError, ExternalError)):
        await project.run(
            tasks,
            {
                "look": [reports()],
                "fix": [
                    shell("echo two > a.txt"),
                    shell(IN_RUN + command),
                    submits(changedFiles=["a.txt"]),
                ],
                "later": [reports()],
            },
        )
    (run,) = [each for each in project.runs if len(each) == 16]
    for tool in ("pinata_status", "pinata_integrate", "pinata_verify", "pinata_changes"):
        with pytest.raises(CorruptionError, match=says):
            await project.call(tool, {"run": run})
    assert "later" not in {event.attempt.task for event in started(project)}


def started(project: Project) -> list[AttemptStarted]:
    return [event for event in project.recorder.events if isinstance(event, AttemptStarted)]


async def test_verdict_that_a_builder_rewrites_lets_nothing_in(project: Project) -> None:
    bent = (
        "sed -i -e s/changes_requested/approve/g -e s/rejected/succeeded/g results/check*.json;"
        " cp events.jsonl copy; sed -i s/rejected/succeeded/g copy; mv copy events.jsonl"
    )
    with pytest.raises((CorruptionError, ExternalError)):
        await project.run(
            [builder("fix", "a.txt"), reviewer("check", "fix"), builder("other", "b.txt")],
            {
                "fix": [shell("echo two > a.txt"), submits(changedFiles=["a.txt"])],
                "check": [requests_changes()],
                "other": [shell("sleep 1; " + IN_RUN + bent), submits(changedFiles=[])],
            },
        )
    (run,) = [each for each in project.runs if len(each) == 16]
    with pytest.raises(CorruptionError, match="cannot be believed"):
        await project.call("pinata_integrate", {"run": run})
    assert (project.repo.root / "a.txt").read_text() == "one\n"
