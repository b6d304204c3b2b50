"""Whatever durable step a process dies at, one command brings everything in order again.

A recording run lists the crash points that a scenario passes; then the scenario is repeated once
for each of them and killed there, so a new durable step is tested without touching this file.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.system.identity import identify, is_alive
from tests.support.projects import (
    PASS,
    Project,
    approves,
    builder,
    reviewer,
    shell,
    submits,
)

pytestmark = pytest.mark.slow

KILLED = -9
AT_ONCE = 4
# Leaves its group and its parent, keeps its environment, and would outlive everybody.
DAEMON = "setsid sh -c 'sleep 600 & exec sleep 600' > /dev/null 2>&1 &"
FILES: dict[str, str | bytes] = {"a.txt": "one\n", "b.txt": "b\n", "gone.txt": "gone\n"}
CHANGE = "echo two > a.txt; rm gone.txt; mkdir new; echo n > new/n.txt"
CHANGED = ["a.txt", "gone.txt", "new/n.txt"]
Point = tuple[str, int]


def new_project(folder: Path) -> Project:
    project = Project.create(folder, dict(FILES))
    project.repo.write("b.txt", "not committed\n")
    project.repo.write("staged.txt", "staged\n")
    project.repo.git("add", "staged.txt")
    return project


def job_file(project: Project) -> Path:
    checks = [{"id": "t", "argv": ["sh", "-c", f"{DAEMON} true"]}]
    job = project.job(
        [builder("fix", *CHANGED, checks=checks), reviewer("check", "fix")],
        {
            "fix": [shell(f"{DAEMON} {CHANGE}"), submits(changedFiles=CHANGED)],
            "check": [approves()],
        },
        integratedChecks=[{"id": "seen", "argv": PASS}],
    )
    return project.write_job(job)


def recorded(project: Project, *arguments: str) -> list[Point]:
    """Run a command to its end and return the crash points that it passes, with their counts."""
    names = project.folder / "points.txt"
    done = project.pinata(*arguments, env={"PINATA_FAULTS": f"record:{names}"})
    assert done.returncode == 0, done.stderr
    seen: Counter[str] = Counter()
    points = []
    for name in names.read_text().split():
        seen[name] += 1
        points.append((name, seen[name]))
    assert points
    return points


def killed_at(project: Project, point: Point, *arguments: str) -> None:
    name, number = point
    done = project.pinata(*arguments, env={"PINATA_FAULTS": f"kill:{name}:{number}"})
    assert done.returncode == KILLED, (point, done.returncode, done.stdout, done.stderr)


def for_each(points: list[Point], tmp_path: Path, scenario: Callable[[Path, Point], None]) -> None:
    """Repeat a scenario once for each point, a few at a time, and fail with all that failed."""

    def attempt(numbered: tuple[int, Point]) -> str | None:
        number, point = numbered
        folder = tmp_path / f"at-{number}"
        folder.mkdir()
        try:
            scenario(folder, point)
        except AssertionError as error:
            return f"{point}: {error}"
        return None

    with ThreadPoolExecutor(AT_ONCE) as threads:
        faults = [fault for fault in threads.map(attempt, enumerate(points)) if fault]
    assert faults == []


def checkout(project: Project) -> dict[str, bytes]:
    """Return what is the user's: files, index entries, HEAD, and refs that are not pinata's."""
    found = {
        str(path.relative_to(project.repo.root)): path.read_bytes()
        for path in sorted(project.repo.root.rglob("*"))
        if path.is_file() and ".git" not in path.parts
    }
    found["HEAD"] = (project.repo.root / ".git" / "HEAD").read_bytes()
    found["index"] = project.repo.git("ls-files", "--stage", "-t")
    refs = {name: id_ for name, id_ in project.refs().items() if "pinata" not in name}
    found["refs"] = json.dumps(refs).encode()
    return found


def marked_processes(project: Project) -> list[str]:
    """Return the command lines of processes that were started for any run of the project."""
    marks = [
        json.loads(path.read_bytes())["mark"].encode()
        for path in (project.repo.root / ".git" / "pinata").glob("*/run.json")
    ]
    found = []
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            environment = (process / "environ").read_bytes()
            if any(b"PINATA_MARK=" + mark in environment for mark in marks):
                found.append((process / "cmdline").read_bytes().decode())
        except OSError:
            continue
    return found


def test_run_killed_at_any_point_is_closed_by_resume_and_loses_no_result(tmp_path: Path) -> None:
    first = tmp_path / "recorded"
    first.mkdir()
    project = new_project(first)
    points = recorded(project, "run", str(job_file(project)))
    assert marked_processes(project) == []

    def scenario(folder: Path, point: Point) -> None:
        project = new_project(folder)
        before = checkout(project)
        killed_at(project, point, "run", str(job_file(project)))
        assert checkout(project) == before
        status = project.pinata("status", "--json")
        assert status.returncode == 0, status.stderr
        earlier = json.loads(status.stdout)
        if "run" not in earlier:
            return
        resumed = project.pinata("resume", earlier["run"])
        assert resumed.returncode in (0, 1), resumed.stderr
        assert checkout(project) == before
        assert marked_processes(project) == []
        after = json.loads(project.pinata("status", "--json").stdout)
        assert after["status"] in ("succeeded", "failed")
        kept = {t["id"]: t for t in earlier["tasks"] if t["status"] not in ("queued", "running")}
        assert {t["id"]: t for t in after["tasks"] if t["id"] in kept} == kept
        again = project.pinata("resume", earlier["run"])
        assert again.returncode == resumed.returncode, again.stderr

    for_each(points, tmp_path, scenario)


def test_integration_killed_at_any_point_is_completed_or_undone_by_one_command(
    tmp_path: Path,
) -> None:
    def prepared(folder: Path) -> tuple[Project, str]:
        project = new_project(folder)
        done = project.pinata("run", str(job_file(project)))
        assert done.returncode == 0, done.stderr
        return project, project.runs[0]

    first = tmp_path / "recorded"
    first.mkdir()
    project, run = prepared(first)
    old = checkout(project)
    points = recorded(project, "integrate", run)
    new = checkout(project)
    assert old != new
    undo_points = recorded(project, "rollback", run, "--confirm")
    assert checkout(project) == old

    def complete(folder: Path, point: Point) -> None:
        project, run = prepared(folder)
        killed_at(project, point, "integrate", run)
        assert project.pinata("status", run).returncode == 0
        done = project.pinata("integrate", run)
        assert done.returncode == 0, done.stderr
        assert checkout(project) == new
        assert project.pinata("rollback", run, "--confirm").returncode == 0
        assert checkout(project) == old

    def undo(folder: Path, point: Point) -> None:
        project, run = prepared(folder)
        killed_at(project, point, "integrate", run)
        begun = checkout(project) != old
        done = project.pinata("rollback", run, "--confirm")
        assert done.returncode == 0 or (done.returncode == 4 and not begun), done.stderr
        assert checkout(project) == old
        assert marked_processes(project) == []

    def undo_again(folder: Path, point: Point) -> None:
        project, run = prepared(folder)
        assert project.pinata("integrate", run).returncode == 0
        killed_at(project, point, "rollback", run, "--confirm")
        done = project.pinata("rollback", run, "--confirm")
        assert done.returncode == 0 or "already" in done.stderr, done.stderr
        assert checkout(project) == old

    for name, at, scenario in (
        ("complete", points, complete),
        ("undo", points, undo),
        ("undo-again", undo_points, undo_again),
    ):
        folder = tmp_path / name
        folder.mkdir()
        for_each(at, folder, scenario)


def test_process_that_wiped_its_environment_is_ended_by_the_next_command(tmp_path: Path) -> None:
    project = new_project(tmp_path)
    beacon = tmp_path / "beacon"
    os.mkfifo(beacon)
    wiped = ["sh", "-c", f"echo $$ > {beacon}; exec env -i /bin/sleep 600"]
    job = project.job(
        [builder("fix", "a.txt", checks=[{"id": "t", "argv": wiped}])],
        {"fix": [shell("echo two > a.txt"), submits(changedFiles=["a.txt"])]},
    )
    owner = subprocess.Popen(
        [sys.executable, "-m", "pinata", "run", str(project.write_job(job))],
        cwd=project.repo.root,
        env=project.program_env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    sleeper = identify(int(beacon.read_text()))
    owner.kill()
    owner.wait()
    assert sleeper is not None
    assert project.pinata("resume", project.runs[0]).returncode == 1
    assert not is_alive(sleeper)
