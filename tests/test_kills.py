"""Whatever durable step a process dies at, one command brings everything in order again.

A recording run lists the crash points that a scenario passes; then the scenario is repeated once
for each of them and killed there, so a new durable step is tested without touching this file.
"""

import contextlib
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import trio

from engine.core.errors import ConflictError
from engine.store import RunFolder
from engine.system.identity import identify, is_alive
from engine.system.ledger import read_ledger
from pinata import app
from tests.support.projects import (
    PASS,
    Project,
    Recorder,
    approves,
    builder,
    reviewer,
    shell,
    submits,
)

pytestmark = [pytest.mark.slow, pytest.mark.unmeasured]

KILLED = -9
UNSETTLED = ("queued", "running")
# Each part is a test of its own, so that none of them takes minutes.
PARTS = range(4)
HALVES = range(2)
AT_ONCE = 2
# Leaves its group and its parent, keeps its environment, and would outlive everybody.
DAEMON = "setsid sh -c 'sleep 600 & exec sleep 600' > /dev/null 2>&1 &"
FILES: dict[str, str | bytes] = {"a.txt": "one\n", "b.txt": "b\n", "gone.txt": "gone\n"}
CHANGE = "echo two > a.txt; rm gone.txt; mkdir new; echo n > new/n.txt"
CHANGED = ["a.txt", "gone.txt", "new/n.txt"]
Point = tuple[str, int]
Answer = dict[str, Any]


def new_project(folder: Path) -> Project:
    folder.mkdir(exist_ok=True)
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


def finished_run(project: Project) -> str:
    """Return the id of a run that is ready to be integrated."""
    done = project.pinata("run", str(job_file(project)))
    assert done.returncode == 0, done.stderr
    return project.runs[0]


def recorded(project: Project, *arguments: str) -> list[Point]:
    """Run a command to its end and return the crash points that it passes, with their counts."""
    names = project.folder / f"points-of-{arguments[0]}.txt"
    done = project.pinata(*arguments, env={"PINATA_FAULTS": f"record:{names}"})
    assert done.returncode == 0, done.stderr
    seen: Counter[str] = Counter()
    points = []
    for name in names.read_text().split():
        seen[name] += 1
        points.append((name, seen[name]))
    assert points
    return points


def call(project: Project, tool: str, run: str) -> Answer:
    """Call a tool from this process, which is another one than the one that was killed."""
    confirm = {"confirm": True} if tool == "pinata_rollback" else {}
    return trio.run(project.call, tool, {"run": run, **confirm})


def resume(project: Project, run: str) -> Answer:
    """Take a run over in this process."""
    context = app.build_context(project.env, project.repo.root, Recorder())
    return trio.run(app.resume_run, context, run)


def killed_at(project: Project, point: Point, *arguments: str) -> None:
    name, number = point
    done = project.pinata(*arguments, env={"PINATA_FAULTS": f"kill:{name}:{number}"})
    assert done.returncode == KILLED, (point, done.returncode, done.stdout, done.stderr)


def for_each(
    points: list[Point], folder: Path, new_scenario: Callable[[Path], Callable[[Point], None]]
) -> None:
    """Play a scenario at each point, on a few projects side by side; fail with all that failed."""

    def play(number: int) -> list[str]:
        scenario = new_scenario(folder / f"project-{number}")
        faults = []
        for point in points[number::AT_ONCE]:
            try:
                scenario(point)
            except AssertionError as error:
                faults.append(f"{point}: {error}")
        return faults

    with ThreadPoolExecutor(AT_ONCE) as threads:
        faults = [fault for found in threads.map(play, range(AT_ONCE)) for fault in found]
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


@pytest.fixture(scope="module")
def run_points(tmp_path_factory: pytest.TempPathFactory, hermetic_home: Path) -> list[Point]:
    """The crash points of a run; nothing of the run is left when it has ended."""
    project = new_project(tmp_path_factory.mktemp("run"))
    points = recorded(project, "run", str(job_file(project)))
    assert marked_processes(project) == []
    return points


@pytest.fixture(scope="module")
def integration_points(
    tmp_path_factory: pytest.TempPathFactory, hermetic_home: Path
) -> tuple[list[Point], list[Point]]:
    """The crash points of an integration that follows a rollback, and those of a rollback."""
    project = new_project(tmp_path_factory.mktemp("integration"))
    run = finished_run(project)
    assert project.pinata("integrate", run).returncode == 0
    assert project.pinata("rollback", run, "--confirm").returncode == 0
    return recorded(project, "integrate", run), recorded(project, "rollback", run, "--confirm")


@pytest.mark.parametrize("part", PARTS)
def test_run_killed_at_any_point_is_closed_by_resume_and_loses_no_result(
    tmp_path: Path, run_points: list[Point], part: int
) -> None:
    def new_scenario(folder: Path) -> Callable[[Point], None]:
        project = new_project(folder)
        job = str(job_file(project))
        before = checkout(project)

        def scenario(point: Point) -> None:
            known = set(project.runs)
            killed_at(project, point, "run", job)
            assert checkout(project) == before
            earlier = trio.run(project.call, "pinata_status", {})
            if earlier.get("run") in {None, *known}:
                return
            after = resume(project, earlier["run"])
            assert checkout(project) == before
            assert marked_processes(project) == []
            assert after["status"] in ("succeeded", "failed")
            kept = {t["id"]: t for t in earlier["tasks"] if t["status"] not in UNSETTLED}
            assert {t["id"]: t for t in after["tasks"] if t["id"] in kept} == kept

        return scenario

    for_each(run_points[part :: len(PARTS)], tmp_path, new_scenario)


def test_resuming_a_closed_run_again_says_the_same(tmp_path: Path) -> None:
    project = new_project(tmp_path)
    killed_at(project, ("store.result.started", 1), "run", str(job_file(project)))
    first = project.pinata("resume", project.runs[0])
    again = project.pinata("resume", project.runs[0])
    assert (first.returncode, again.returncode) == (1, 1)
    # What the run begins with is said before its agents start, and none start again.
    assert first.stderr.endswith(again.stderr)
    assert again.stdout == ""


@pytest.mark.parametrize("part", HALVES)
@pytest.mark.parametrize("way", ["completed", "undone"])
def test_integration_killed_at_any_point_is_completed_or_undone_by_one_command(
    tmp_path: Path, integration_points: tuple[list[Point], list[Point]], way: str, part: int
) -> None:
    def new_scenario(folder: Path) -> Callable[[Point], None]:
        project = new_project(folder)
        old = checkout(project)
        run = finished_run(project)
        assert call(project, "pinata_integrate", run)["status"] == "verified"
        new = checkout(project)
        assert old != new
        call(project, "pinata_rollback", run)

        def completed(point: Point) -> None:
            killed_at(project, point, "integrate", run)
            assert call(project, "pinata_integrate", run)["status"] == "verified"
            assert checkout(project) == new
            call(project, "pinata_rollback", run)
            assert checkout(project) == old

        def undone(point: Point) -> None:
            killed_at(project, point, "integrate", run)
            begun = checkout(project) != old
            try:
                call(project, "pinata_rollback", run)
            except ConflictError:
                assert not begun
            assert checkout(project) == old
            assert marked_processes(project) == []

        return completed if way == "completed" else undone

    for_each(integration_points[0][part :: len(HALVES)], tmp_path, new_scenario)


@pytest.mark.parametrize("part", HALVES)
def test_rollback_killed_at_any_point_is_finished_by_calling_it_again(
    tmp_path: Path, integration_points: tuple[list[Point], list[Point]], part: int
) -> None:
    def new_scenario(folder: Path) -> Callable[[Point], None]:
        project = new_project(folder)
        old = checkout(project)
        run = finished_run(project)

        def scenario(point: Point) -> None:
            assert call(project, "pinata_integrate", run)["status"] == "verified"
            killed_at(project, point, "rollback", run, "--confirm")
            finished = checkout(project) == old
            try:
                call(project, "pinata_rollback", run)
            except ConflictError:
                assert finished
            assert checkout(project) == old

        return scenario

    for_each(integration_points[1][part :: len(HALVES)], tmp_path, new_scenario)


def test_process_that_wiped_its_environment_is_ended_by_the_next_command(tmp_path: Path) -> None:
    project = new_project(tmp_path)
    beacon = tmp_path / "beacon"
    os.mkfifo(beacon)
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    wiped = ["sh", "-c", f"echo $$ > {beacon}; read go < {gate}; exec env -i /bin/sleep 600"]
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
    assert sleeper is not None
    ledger = RunFolder(project.repo.root / ".git" / "pinata" / project.runs[0]).processes_file
    while sleeper not in read_ledger(ledger):
        with contextlib.suppress(subprocess.TimeoutExpired):
            pytest.fail(f"pinata ended with {owner.wait(0.02)}")
    gate.write_text("go\n")
    owner.kill()
    owner.wait()
    assert project.pinata("resume", project.runs[0]).returncode == 1
    assert not is_alive(sleeper)


def test_daemon_of_an_agent_that_wiped_its_environment_does_not_outlive_the_run(
    tmp_path: Path,
) -> None:
    project = new_project(tmp_path)
    beacon = tmp_path / "beacon"
    daemon = f"echo $$ > {beacon}; exec sleep 600"
    leave = f"(env -i PATH=$PATH setsid sh -c '{daemon}' > /dev/null 2>&1 &)"
    job = project.job(
        [builder("fix", "a.txt")],
        {"fix": [shell(f"{leave}; until [ -s {beacon} ]; do sleep 0.01; done"), submits()]},
    )
    done = project.pinata("run", str(project.write_job(job)))
    assert done.returncode == 0, done.stderr
    assert identify(int(beacon.read_text())) is None
