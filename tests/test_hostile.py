"""Whatever a job asks for and an agent tries, it gets its documented end, and in time.

Nothing is timed here: a program that would not be ended keeps a test waiting until the watchdog
shows where.
"""

import sys
from pathlib import Path
from typing import Any

import pytest

from engine.core.errors import UsageError
from tests.support.live import agents_left
from tests.support.projects import (
    PASS,
    Project,
    builder,
    reports,
    scout,
    shell,
    statuses,
    submits,
    task_of,
)

pytestmark = [pytest.mark.slow, pytest.mark.unmeasured]

FILES: dict[str, str | bytes] = {"a.txt": "one\n", "b.txt": "b\n", "src/x.py": "x = 1\n"}
GIBIBYTE = 1 << 30
ALLOWANCE_BYTES = 32 << 20
FORKS = [sys.executable, "-c", "import os, time; os.fork(); time.sleep(600)"]
DAEMON = [
    "sh",
    "-c",
    "setsid sh -c 'setsid sleep 600 & exec sleep 600' < /dev/null > /dev/null 2>&1 & exit 0",
]
SHOUTS = ["sh", "-c", f"head -c {GIBIBYTE} /dev/zero | tr '\\0' x"]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, dict(FILES))


def fix_job(project: Project, **fields: Any) -> dict[str, Any]:
    turns = [shell("echo two > a.txt"), submits(changedFiles=["a.txt"])]
    return project.job([builder("fix", "a.txt", **fields)], {"fix": turns})


async def refused(project: Project, job: dict[str, Any], says: str) -> None:
    """Hand a job in and see that it leaves nothing behind."""
    with pytest.raises(UsageError, match=says):
        await project.call("pinata_run", job)
    assert project.runs == []
    assert not [name for name in project.refs() if "pinata" in name]


async def attack(project: Project, *commands: str, **limits: float) -> tuple[str, str]:
    """Let a builder run commands, and return its status and the reason."""
    answer = await project.run(
        [builder("fix", "a.txt")],
        {"fix": [*(shell(command) for command in commands), submits(changedFiles=["a.txt"])]},
        config={"limits": limits},
    )
    fix = task_of(answer, "fix")
    assert agents_left(project) == []
    return fix["status"], fix.get("reason", "")


# Jobs


async def test_thousand_and_one_tasks_are_too_many(project: Project) -> None:
    tasks = [scout(f"t-{number}") for number in range(1_001)]
    await refused(project, project.job(tasks, {}), "1,000|1000")


async def test_circle_of_tasks_is_shown(project: Project) -> None:
    tasks = [scout("a", after=["c"]), scout("b", after=["a"]), scout("c", after=["b"])]
    await refused(project, project.job(tasks, {}), "wait for each other: .* -> .* -> ")


UNKNOWN: dict[str, dict[str, Any]] = {
    "job": {"colour": "red"},
    "config": {"config": {"colour": "red"}},
    "limits": {"config": {"limits": {"colour": "red"}}},
    "model": {"config": {"models": {"default": {"provider": "p", "id": "i", "colour": "red"}}}},
    "check": {"integratedChecks": [{"id": "t", "argv": PASS, "colour": "red"}]},
    "task": {"tasks": [scout("look", colour="red")]},
}


@pytest.mark.parametrize("fields", UNKNOWN.values(), ids=UNKNOWN.keys())
async def test_unknown_field_at_any_depth_is_refused_by_name(
    project: Project, fields: dict[str, Any]
) -> None:
    job = project.job([scout("look")], {"look": [reports()]})
    await refused(project, job | fields, "colour")


@pytest.mark.parametrize("owned", ["../x", "/etc", ".git/config", "src/../../x", ".", ".env"])
async def test_ownership_outside_what_a_builder_may_own_is_refused(
    project: Project, owned: str
) -> None:
    await refused(project, project.job([builder("fix", owned)], {}), "ownership")


# Checks


async def test_check_that_forks_and_hangs_ends_with_its_time(project: Project) -> None:
    check = {"id": "hangs", "argv": FORKS, "timeoutMs": 300}
    answer = await project.call("pinata_run", fix_job(project, checks=[check]))
    fix = task_of(answer, "fix")
    assert (fix["status"], fix["engineChecks"]["failed"]) == ("failed", 1)
    assert "hangs failed: timed out" in fix["reason"]
    assert agents_left(project) == []


async def test_daemon_of_a_check_does_not_outlive_its_run(project: Project) -> None:
    answer = await project.call(
        "pinata_run", fix_job(project, checks=[{"id": "daemon", "argv": DAEMON}])
    )
    assert statuses(answer) == {"fix": "succeeded"}
    assert agents_left(project) == []


def peak_bytes(project: Project, argv: list[str]) -> int:
    """Return the most memory that a run with this check took, by its own account."""
    job = fix_job(project, checks=[{"id": "loud", "argv": argv}])
    path = project.write_job(job)
    code = (
        "import sys, pathlib\n"
        f"sys.argv[1:] = ['run', {str(path)!r}]\n"
        "from pinata.__main__ import main\n"
        "main()\n"
        "lines = pathlib.Path('/proc/self/status').read_text().splitlines()\n"
        "print(next(line.split()[1] for line in lines if line.startswith('VmHWM')))\n"
    )
    program = project.folder / "measured.py"
    program.write_text(code)
    done = project.python(str(program))
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[-1]) << 10


def test_output_of_a_gibibyte_ends_the_check_and_is_never_in_memory(project: Project) -> None:
    quiet = peak_bytes(project, PASS)
    loud = peak_bytes(project, SHOUTS)
    assert loud - quiet <= ALLOWANCE_BYTES
    assert "loud failed: output limit" in project.pinata("status").stdout


# Agents that do what they must not


ATTACKS: dict[str, tuple[str, str]] = {
    "unowned": ("echo x > b.txt", "b.txt"),
    "link": ("ln -s /etc src/link", "src/link"),
    "commit": ("git -c user.name=x -c user.email=x@x commit -qam done", "HEAD"),
    "reset": ("git checkout --quiet -b mine", "HEAD"),
    "configuration": ("git config core.hooksPath /nowhere", "config"),
    "nested": ("git init --quiet nested; echo x > nested/x", "nested"),
}


@pytest.mark.parametrize(("command", "says"), ATTACKS.values(), ids=ATTACKS.keys())
async def test_builder_that_does_what_it_must_not_fails_and_the_checkout_is_unharmed(
    project: Project, command: str, says: str
) -> None:
    project.repo.write("b.txt", "mine\n")
    before = project.repo.git("status", "--porcelain"), project.repo.ask("rev-parse", "HEAD")
    status, reason = await attack(project, f"echo two > a.txt; {command}")
    assert (status, says in reason) == ("failed", True), reason
    after = project.repo.git("status", "--porcelain"), project.repo.ask("rev-parse", "HEAD")
    assert after == before
    assert (project.repo.root / "a.txt").read_text() == "one\n"


@pytest.mark.parametrize(
    "command", ["rm .git", "echo 'gitdir: /nowhere' > .git"], ids=["removed", "repointed"]
)
async def test_worktree_that_lost_its_tie_to_git_is_captured_all_the_same(
    project: Project, command: str
) -> None:
    before = project.refs()
    answer = await project.run(
        [builder("fix", "a.txt")],
        {
            "fix": [
                shell(f"{command}; echo two > a.txt; git commit -qam x"),
                submits(changedFiles=["a.txt"]),
            ]
        },
    )
    assert task_of(answer, "fix")["changedFiles"] == ["a.txt"]
    assert statuses(answer) == {"fix": "succeeded"}
    assert {name: id_ for name, id_ in project.refs().items() if "pinata" not in name} == before


@pytest.mark.parametrize(
    "command",
    ["git stash --quiet", "git branch --force topic HEAD~0 && git branch moved"],
    ids=["stash", "branch"],
)
async def test_refs_of_the_user_that_moved_meanwhile_are_a_notice(
    project: Project, command: str
) -> None:
    who = "export GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x GIT_COMMITTER_NAME=x GIT_COMMITTER_EMAIL=x"
    answer = await project.run(
        [builder("fix", "a.txt")],
        {
            "fix": [
                shell(f"{who}; echo x > a.txt; {command}; echo two > a.txt"),
                submits(changedFiles=["a.txt"]),
            ]
        },
    )
    fix = task_of(answer, "fix")
    assert fix["notices"], fix


# Agents that do not stop


async def test_agent_that_hangs_is_out_of_time(project: Project) -> None:
    answer = await project.run(
        [scout("look")],
        {"look": [{"text": "hm", "hang": True}]},
        config={"limits": {"taskMs": 300}},
    )
    look = task_of(answer, "look")
    assert (look["status"], "300" in look["reason"]) == ("failed", True), look


async def test_run_out_of_time_fails_what_runs_and_cancels_what_waits(project: Project) -> None:
    answer = await project.run(
        [builder("fix", "a.txt"), scout("later", after=["fix"])],
        {"fix": [shell("trap '' TERM; sleep 600")]},
        config={"limits": {"jobMs": 2_000}},
    )
    assert statuses(answer) == {"fix": "failed", "later": "cancelled"}
    assert answer["status"] == "failed"
    assert agents_left(project) == []


@pytest.mark.parametrize(("limit", "says"), [("maxTurns", "turn"), ("maxToolCalls", "tool-call")])
async def test_agent_over_its_turns_or_calls_fails_naming_the_budget(
    project: Project, limit: str, says: str
) -> None:
    answer = await project.run(
        [builder("fix", "a.txt")],
        {"fix": [shell("true")] * 9},
        config={"limits": {limit: 3}},
    )
    fix = task_of(answer, "fix")
    assert fix["status"] == "failed"
    assert f"{says} budget: all are used up, 3 of 3" in fix["reason"]


async def test_run_over_its_cost_is_cancelled(project: Project) -> None:
    costly = {"text": "hm", "usage": {"input": 1, "output": 1, "costUsd": 2.0}}
    answer = await project.run(
        [scout("look"), scout("later", after=["look"])],
        {"look": [costly, reports()]},
        config={"limits": {"costUsd": 1.0}},
    )
    assert answer["status"] == "cancelled"
    assert "succeeded" not in statuses(answer).values()


async def test_ten_megabytes_of_text_harm_nobody(project: Project) -> None:
    (project.repo.root / "large.txt").write_bytes(b"x" * (10 << 20))
    turns = [{"text": "x" * (3 << 20)}, shell("head -c 10485760 large.txt"), submits()]
    answer = await project.run([builder("fix", "a.txt")], {"fix": turns})
    assert statuses(answer) == {"fix": "succeeded"}
    shown = await project.call("pinata_status", {"task": "fix", "detail": "transcript"})
    assert len(shown["excerpt"]) < 10_000
