"""The command line does what its documentation says, exit code by exit code."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from agents.herdsman.tool_names import HERD_TOOL_NAMES
from pinata.app import TOOL_NAMES
from tests.support.live import agents_left, live
from tests.support.projects import (
    FAIL,
    PASS,
    Project,
    approves,
    builder,
    reports,
    requests_changes,
    reviewer,
    scout,
    shell,
    submits,
)

pytestmark = pytest.mark.slow

FINDING = {"severity": "low", "message": "odd", "evidence": "a.txt:1"}
FILES: dict[str, str | bytes] = {"a.txt": "one\n", "b.txt": "b\n"}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, dict(FILES))


def scout_job(project: Project, **fields: object) -> str:
    job = project.job([scout("look")], {"look": [reports()]}, **fields)
    return str(project.write_job(job))


def change_job(project: Project, **fields: object) -> str:
    """Write a job whose builder changes a file and whose reviewer approves."""
    job = project.job(
        [builder("fix", "a.txt"), reviewer("check", "fix")],
        {
            "fix": [shell("echo two > a.txt"), submits(changedFiles=["a.txt"])],
            "check": [approves()],
        },
        **fields,
    )
    return str(project.write_job(job))


def hanging_job(project: Project) -> str:
    """Write a job whose builder waits for a program, and a scout for the builder."""
    tasks = [builder("fix", "a.txt"), scout("later", after=["fix"])]
    return str(project.write_job(project.job(tasks, {"fix": [shell("sleep 600"), submits()]})))


def traces(project: Project) -> list[str]:
    """Return whatever a run would have left behind: folders, refs, worktrees."""
    state = project.folder / "state"
    worktrees = [str(path) for path in state.rglob("*")] if state.exists() else []
    listed = project.repo.git("worktree", "list", "--porcelain").decode().count("worktree ")
    refs = [name for name in project.refs() if name.startswith("refs/pinata/")]
    return [*project.runs, *refs, *worktrees, *["worktree"] * (listed - 1)]


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def status(project: Project, *arguments: str) -> dict[str, Any]:
    done = project.pinata("status", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


# Runs


def test_good_job_exits_with_0_and_its_log_goes_from_start_to_settlement(project: Project) -> None:
    done = project.pinata("run", scout_job(project), "--json")
    assert done.returncode == 0, done.stderr
    types = [event["type"] for event in events(done.stdout)]
    assert (types[0], types[-1]) == ("run_started", "run_settled")
    assert [event["seq"] for event in events(done.stdout)] == list(range(len(types)))


def test_lines_of_a_run_are_those_of_its_log(project: Project) -> None:
    done = project.pinata("run", change_job(project))
    assert done.returncode == 0, done.stderr
    first, *lines = done.stdout.splitlines()
    assert first == f"run {project.runs[0]}"
    assert project.pinata("logs").stdout.splitlines() == lines
    assert all(line[8:10] == "  " and float(line[:8]) >= 0 for line in lines)
    assert f"to apply it: pinata integrate {project.runs[0]}" in done.stderr


def test_agent_that_never_hands_in_makes_it_1(project: Project) -> None:
    job = project.job([scout("look")], {"look": [{"text": "well"}]})
    done = project.pinata("run", str(project.write_job(job)))
    assert done.returncode == 1
    assert "look" in done.stderr


def test_folder_of_the_job_file_is_where_relative_paths_start(project: Project) -> None:
    path = scout_job(project, cwd="repo")
    done = project.pinata("run", path, cwd=project.folder)
    assert done.returncode == 0, done.stderr


def test_mode_of_the_command_line_wins_over_the_jobs(project: Project) -> None:
    path = change_job(project, config={"mode": "lean"})
    done = project.pinata("run", path, "--mode", "observe", "--json")
    assert "tool_start" in {event["type"] for event in events(done.stdout)}


# Refusals


BAD_JOBS: dict[str, tuple[bytes | None, str]] = {
    "missing": (None, "cannot be read"),
    "not-json": (b"{tasks: []}", "job.json"),
    "duplicate-keys": (b'{"tasks": [], "tasks": []}', "tasks"),
    "too-large": (b" " * ((16 << 20) + 1), "is longer than 16,777,216 bytes"),
    "an-array": (b"[]", "object"),
    "bad-id": (b'{"tasks": [{"id": "Fix", "agent": "scout", "task": "x"}]}', "Fix"),
    "unknown-field": (b'{"tasks": [], "colour": "red"}', "colour"),
}


@pytest.mark.parametrize(("data", "says"), BAD_JOBS.values(), ids=BAD_JOBS.keys())
def test_bad_job_file_is_refused_with_2_and_nothing_is_left(
    project: Project, data: bytes | None, says: str
) -> None:
    path = project.folder / "job.json"
    if data is not None:
        path.write_bytes(data)
    done = project.pinata("run", str(path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("pinata: ")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert traces(project) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "job.json", "--fast"],
        ["run", "job.json", "--mode", "loud"],
        ["run"],
        ["fly"],
        [],
        ["status", "--limit", "many"],
        ["status", "--limit", "65"],
        ["status", "--offset", "-1"],
        ["status", "--detail", "result"],
        ["status", "no-such-run"],
        ["logs"],
        ["rollback", "ab"],
    ],
    ids=" ".join,
)
def test_arguments_that_cannot_be_meant_are_refused_with_2(
    project: Project, arguments: list[str]
) -> None:
    done = project.pinata(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("pinata: ")
    assert done.stderr.count("\n") == 1


def test_refusal_for_a_machine_is_an_object_on_stderr(project: Project) -> None:
    done = project.pinata("status", "no-such-run", "--json")
    assert (done.returncode, done.stdout) == (2, "")
    assert list(json.loads(done.stderr)) == ["error"]


def link_ownership(project: Project) -> str:
    (project.repo.root / "link").symlink_to("b.txt")
    project.repo.commit("a link")
    return str(project.write_job(project.job([builder("fix", "link/x")], {})))


def submodule_ownership(project: Project) -> str:
    head = project.repo.ask("rev-parse", "HEAD")
    project.repo.git("update-index", "--add", "--cacheinfo", f"160000,{head},sub")
    project.repo.git("commit", "--quiet", "--message", "a submodule")
    return str(project.write_job(project.job([builder("fix", "sub/x")], {})))


def unmerged_index(project: Project) -> str:
    blob = project.repo.ask("rev-parse", "HEAD:a.txt")
    entries = "".join(f"100644 {blob} {stage}\ta.txt\n" for stage in (1, 2, 3))
    project.repo.git("update-index", "--index-info", stdin=entries.encode())
    return change_job(project)


def missing_script(project: Project) -> str:
    path = scout_job(project)
    (project.folder / "script.json").unlink()
    return path


def unknown_provider(project: Project) -> str:
    model = {"provider": "nobody", "id": "m", "thinking": "off"}
    return scout_job(project, config={"models": {"default": model}})


def process_backend(project: Project) -> str:
    return scout_job(project, config={"backend": "process"})


def survival(project: Project) -> str:
    return scout_job(project, background=True)


@pytest.mark.parametrize(
    ("prepare", "code", "says"),
    [
        (link_ownership, 2, "link"),
        (submodule_ownership, 2, "sub"),
        (unmerged_index, 4, "a.txt"),
        (missing_script, 2, "script.json"),
        (unknown_provider, 1, "nobody"),
        (process_backend, 1, "process"),
        (survival, 2, "background"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_run_that_cannot_be_carried_out_here_leaves_nothing(
    project: Project,
    prepare: Any,
    code: int,
    says: str,
) -> None:
    path = prepare(project)
    done = project.pinata("run", path)
    assert done.stdout == ""
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert traces(project) == []
    assert done.returncode == code, done.stderr


def test_repository_without_a_commit_has_scouts_but_no_builders(tmp_path: Path) -> None:
    project = Project.create(tmp_path, dict(FILES))
    project.repo.git("update-ref", "-d", "HEAD")
    refused = project.pinata("run", change_job(project))
    assert (refused.returncode, refused.stdout) == (4, "")
    assert "no commit yet" in refused.stderr
    assert traces(project) == []
    assert project.pinata("run", scout_job(project)).returncode == 0


def test_outside_a_repository_everything_is_refused_with_2(
    project: Project, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    for arguments in (["run", scout_job(project)], ["status"], ["logs"], ["resume", "ab"]):
        done = project.pinata(*arguments, cwd=outside)
        assert done.returncode == 2, done.stderr
        assert "not in a Git repository" in done.stderr
    assert list(outside.iterdir()) == []


@pytest.mark.unmeasured
def test_agents_and_checks_may_look_but_change_nothing(project: Project) -> None:
    path = scout_job(project)
    for arguments in (
        ["run", path],
        ["resume", "ab"],
        ["integrate", "ab"],
        ["rollback", "ab", "--confirm"],
    ):
        done = project.pinata(*arguments, env={"PINATA_AGENT": "1"})
        assert done.returncode == 4, (arguments, done.stderr)
        assert "PINATA_AGENT=1" in done.stderr
    assert traces(project) == []
    assert project.pinata("status", env={"PINATA_AGENT": "1"}).returncode == 0


# Interruptions


@pytest.mark.unmeasured
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_run_is_cancelled_with_3_and_no_process_is_left(
    project: Project, number: signal.Signals
) -> None:
    with live(project, "run", hanging_job(project), "--json", "--mode", "observe") as run:
        run.wait_event("tool_start")
        run.process.send_signal(number)
        code, out, err = run.end()
    assert code == 3, err
    assert events(out)[-1]["type"] == "run_settled"
    assert agents_left(project) == []
    answer = status(project)
    assert answer["status"] == "cancelled"
    assert [task["status"] for task in answer["tasks"]] == ["cancelled", "cancelled"]
    assert number.name in answer["tasks"][0]["reason"]


def test_second_interruption_ends_at_once_and_the_run_can_be_closed_later(
    project: Project,
) -> None:
    stubborn = shell("trap '' TERM; touch ready; while :; do sleep 1; done")
    job = project.job([builder("fix", "a.txt")], {"fix": [stubborn]})
    path = str(project.write_job(job))
    with live(project, "run", path, "--json", "--mode", "observe") as run:
        run.wait_event("tool_start")
        run.process.send_signal(signal.SIGINT)
        run.wait_event("cancel_requested")
        run.process.send_signal(signal.SIGINT)
        code, _, err = run.end()
    assert code == 3, err
    assert "Traceback" not in err
    assert agents_left(project) == []
    assert project.pinata("resume", project.runs[0]).returncode in (1, 3)
    assert status(project)["status"] in ("cancelled", "failed")


@pytest.mark.unmeasured
def test_reader_that_leaves_early_does_not_change_how_the_run_ends(project: Project) -> None:
    checks = [{"id": "t", "argv": PASS}]
    job = project.job(
        [builder("fix", "a.txt", checks=checks)],
        {"fix": [shell("echo two > a.txt"), submits(changedFiles=["a.txt"])]},
    )
    with live(project, "run", str(project.write_job(job)), "--json") as run:
        run.process.stdout.readline()
        run.process.stdout.close()
        err = run.process.stderr.read()
        assert run.process.wait() == 0, err
    assert "Error" not in err
    assert status(project)["status"] == "succeeded"


def test_reader_that_stalls_does_not_stall_the_run(project: Project) -> None:
    chatty = [{"text": "x" * 60_000}, {"text": "y" * 60_000}, reports()]
    tasks = [scout(f"t-{number}") for number in range(4)]
    job = project.job(tasks, {task["id"]: [shell("true"), *chatty] for task in tasks})
    path = str(project.write_job(job))
    with live(project, "run", path, "--json", "--mode", "observe") as run:
        run.wait_event("run_started")
        follow = project.pinata("logs", "--follow", "--json")
        assert events(follow.stdout)[-1]["type"] == "run_settled"
        code, out, _ = run.end()
    assert code in (0, 1)
    assert events(out)[-1]["type"] == "run_settled"


# Runs of others


@pytest.mark.unmeasured
def test_run_of_a_live_process_is_refused_with_4_naming_it(project: Project) -> None:
    with live(project, "run", hanging_job(project), "--json", "--mode", "observe") as run:
        run.wait_event("tool_start")
        owner = f"process {run.process.pid}"
        id_ = project.runs[0]
        for arguments in (["resume", id_], ["integrate", id_], ["rollback", id_, "--confirm"]):
            done = project.pinata(*arguments)
            assert done.returncode == 4, (arguments, done.stderr)
            assert owner in done.stderr
        shown = status(project)
        assert [task["status"] for task in shown["tasks"]] == ["running", "queued"]
        assert not any("live process" in notice for notice in shown["notices"])
        run.process.send_signal(signal.SIGINT)
        assert run.end()[0] == 3


@pytest.mark.unmeasured
def test_run_whose_owner_died_says_so_and_is_finished_by_resume(project: Project) -> None:
    with live(project, "run", hanging_job(project), "--json", "--mode", "observe") as run:
        run.wait_event("tool_start")
        run.process.kill()
        run.end()
    assert any("no live process owns" in notice for notice in status(project)["notices"])
    done = project.pinata("resume", project.runs[0][:6], "--json")
    assert done.returncode == 1, done.stderr
    types = [event["type"] for event in events(done.stdout)]
    assert (types[0], types[-1]) == ("run_resumed", "run_settled")
    assert agents_left(project) == []


def test_log_of_a_live_run_is_followed_to_its_settlement(project: Project) -> None:
    with live(project, "run", hanging_job(project), "--json", "--mode", "observe") as run:
        run.wait_event("tool_start")
        with live(project, "logs", "--follow", "--json") as follow:
            follow.wait_event("agent_started")
            run.process.send_signal(signal.SIGINT)
            code, out, err = follow.end()
            assert code == 0, err
            assert events(out)[-1]["type"] == "run_settled"
        assert run.end()[0] == 3


@pytest.mark.unmeasured
def test_log_is_followed_across_the_owners_death(project: Project) -> None:
    with live(project, "run", hanging_job(project), "--json", "--mode", "observe") as run:
        run.wait_event("tool_start")
        with live(project, "logs", "--follow", "--json") as follow:
            follow.wait_event("agent_started")
            run.process.kill()
            run.end()
            assert project.pinata("resume", project.runs[0]).returncode == 1
            follow.wait_event("run_resumed")
            assert follow.end()[0] == 0


@pytest.mark.unmeasured
def test_log_of_one_task_is_about_it_alone(project: Project) -> None:
    assert project.pinata("run", change_job(project)).returncode == 0
    lines = events(project.pinata("logs", project.runs[0], "check", "--json").stdout)
    assert {line["agent"] for line in lines} == {"check"}
    assert project.pinata("logs", project.runs[0], "nobody").returncode == 2


# What has been done


@pytest.mark.unmeasured
async def test_status_of_a_fresh_process_is_what_the_runs_own_process_answered(
    project: Project,
) -> None:
    assert status(project)["message"] == "there are no runs yet"
    answer = await project.run(
        [scout("look"), builder("fix", "a.txt"), reviewer("check", "fix")],
        {
            "look": [reports(findings=[FINDING])],
            "fix": [shell("echo two > a.txt"), submits(changedFiles=["a.txt"])],
            "check": [approves()],
        },
    )
    assert status(project) == answer


@pytest.mark.unmeasured
def test_integration_exits_by_what_its_checks_showed(project: Project) -> None:
    failing = [{"id": "seen", "argv": FAIL}]
    assert project.pinata("run", change_job(project, integratedChecks=failing)).returncode == 0
    id_ = project.runs[0]
    done = project.pinata("integrate", id_)
    assert done.returncode == 1, done.stderr
    assert "verification_failed" in done.stdout
    assert "check seen failed: exited with 3" in done.stdout
    assert "destination: verification_failed" in project.pinata("status").stdout
    undone = project.pinata("rollback", id_, "--confirm", "--json")
    assert undone.returncode == 0, undone.stderr
    assert json.loads(undone.stdout)["files"] == [{"path": "a.txt", "outcome": "restored"}]


def test_change_is_handed_over_and_its_destination_verified(project: Project) -> None:
    checks = [{"id": "seen", "argv": ["grep", "-q", "two", "a.txt"]}]
    assert project.pinata("run", change_job(project, integratedChecks=checks)).returncode == 0
    (run,) = [each for each in project.runs if len(each) == 16]
    listed = project.pinata("runs")
    assert (listed.returncode, listed.stdout[:8]) == (0, run[:8])
    handed = project.pinata("changes", run[:8])
    assert (handed.returncode, "a.txt" in handed.stdout) == (0, True)
    failed = project.pinata("verify", run[:8])
    assert (failed.returncode, "not applied yet, or edited since: a.txt" in failed.stdout) == (
        1,
        True,
    )
    own = project.folder / "checks.json"
    own.write_text(json.dumps([{"id": "own", "argv": PASS}]))
    different = project.pinata("verify", run[:8], "--checks", str(own), "--json")
    assert (different.returncode, json.loads(different.stdout)["status"]) == (1, "verified")
    assert project.pinata("integrate", run[:8]).returncode == 0
    assert project.pinata("verify", run[:8]).returncode == 0
    assert project.pinata("verify", run[:8], "--no-checks", "only a look").returncode == 1


@pytest.mark.unmeasured
def test_unapproved_run_is_refused_with_4(project: Project) -> None:
    job = project.job(
        [builder("fix", "a.txt"), reviewer("check", "fix")],
        {
            "fix": [shell("echo two > a.txt"), submits(changedFiles=["a.txt"])],
            "check": [requests_changes()],
        },
    )
    assert project.pinata("run", str(project.write_job(job))).returncode in (0, 1)
    done = project.pinata("integrate", project.runs[0])
    assert (done.returncode, done.stdout) == (4, "")


def test_damaged_records_are_5_for_every_command(project: Project) -> None:
    assert project.pinata("run", scout_job(project)).returncode == 0
    record = project.repo.root / ".git" / "pinata" / project.runs[0] / "run.json"
    record.write_text("{}")
    for arguments in (["status"], ["logs"], ["resume", project.runs[0]]):
        done = project.pinata(*arguments)
        assert (done.returncode, done.stdout) == (5, ""), arguments
        assert "run.json" in done.stderr


def test_parts_of_a_task_are_shown_as_asked(project: Project) -> None:
    assert project.pinata("run", change_job(project)).returncode == 0
    id_ = project.runs[0]
    assert "changed: a.txt" in project.pinata("status", id_, "fix").stdout
    assert (
        "echo two > a.txt" in project.pinata("status", id_, "fix", "--detail", "transcript").stdout
    )
    result = project.pinata("status", id_, "fix", "--detail", "result").stdout
    assert json.loads(result)["artifact"]["changes"][0]["path"] == "a.txt"
    assert status(project, id_, "fix")["status"] == "succeeded"
    assert project.pinata("status", id_, "nobody").returncode == 2


# The machine


def test_doctor_finds_a_good_repository_good(project: Project) -> None:
    done = project.pinata("doctor")
    assert done.returncode == 0, done.stdout
    assert " NO " not in done.stdout


@pytest.mark.parametrize("bare", [False, True], ids=["outside", "bare"])
def test_doctor_says_where_pinata_cannot_work(
    project: Project,
    tmp_path: Path,
    bare: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    if bare:
        project.repo.git("init", "--quiet", "--bare", str(folder))
    done = project.pinata("doctor", "--json", cwd=folder)
    assert done.returncode == 1
    answer = json.loads(done.stdout)
    assert [finding["what"] for finding in answer["findings"] if not finding["ok"]] == [
        "repository"
    ]


def test_tools_are_described_with_their_schemas(project: Project) -> None:
    described = json.loads(project.pinata("tools", "--json").stdout)
    names = [tool["name"] for tool in described]
    assert names == [*TOOL_NAMES, *HERD_TOOL_NAMES]
    assert all(tool["parameters"]["additionalProperties"] is False for tool in described)
    shown = project.pinata("tools").stdout
    assert all(name in shown for name in names)


def test_version_is_told_alone_and_among_other_arguments(project: Project) -> None:
    alone = project.pinata("--version")
    assert alone.stdout.startswith("pinata ")
    assert project.pinata("--version", "status").stdout == alone.stdout
