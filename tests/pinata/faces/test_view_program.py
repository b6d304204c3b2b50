"""`pinata view` in a process of its own shows and reaches the runs of another one."""

import json
import os
import signal
from pathlib import Path

import pytest

from pinata.faces.view_paint import LEAVE_SCREEN
from tests.support.live import agents_left, live
from tests.support.projects import Project, builder, reports, scout, shell, submits
from tests.support.terminals import on_terminal, open_pty

pytestmark = pytest.mark.slow


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, {"a.txt": "one\n"})


def hanging_job(project: Project) -> str:
    """Write a job whose builder waits for a program, and a scout for the builder."""
    tasks = [builder("fix", "a.txt"), scout("later", after=["fix"])]
    begins = {"text": "I begin."} | shell("sleep 600")
    return str(project.write_job(project.job(tasks, {"fix": [begins, submits()]})))


def types(printed: str) -> list[str]:
    return [json.loads(line)["type"] for line in printed.splitlines()]


def test_run_is_read_steered_and_cancelled_from_another_terminal(project: Project) -> None:
    with (
        open_pty(60, 12) as terminal,
        live(project, "run", hanging_job(project), "--json") as run,
    ):
        run.wait_event("agent_started")
        with on_terminal(project, terminal, "view") as view:
            terminal.wait_shown("bash sleep 600")
            terminal.press(b"\r")
            terminal.wait_shown("assistant: I begin.")
            terminal.press(b"smind the tests\r")
            terminal.wait_shown("fix: the message waits for its agent")
            terminal.press(b"qC")
            terminal.wait_shown("cancel the whole run")
            terminal.press(b"y")
            assert view.wait() == 0
        terminal.wait_shown("✗ later")
        _, _, left = terminal.written.rpartition(LEAVE_SCREEN)
        assert f"run {project.runs[0][:8]} cancelled, 2 cancelled" in left
        assert terminal.is_cooked
        assert run.end()[0] == 3
    assert agents_left(project) == []


def test_view_that_is_stopped_gives_the_terminal_back_until_it_goes_on(project: Project) -> None:
    with (
        open_pty() as terminal,
        live(project, "run", hanging_job(project), "--json") as run,
    ):
        run.wait_event("agent_started")
        with on_terminal(project, terminal, "view") as view:
            terminal.wait_shown("bash sleep 600")
            modes = [terminal.is_cooked]
            terminal.press(b"\x1a")
            _, status = os.waitpid(view.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status)
            modes.append(terminal.is_cooked)
            terminal.wait_written(LEAVE_SCREEN)
            terminal.screen.reset()
            view.send_signal(signal.SIGCONT)
            terminal.wait_shown("bash sleep 600")
            modes.append(terminal.is_cooked)
            terminal.press(b"\x03")
            assert view.wait() == 0
        terminal.wait_written("goes on: pinata view")
        assert [*modes, terminal.is_cooked] == [False, True, False, True]
        run.process.send_signal(signal.SIGINT)
        assert run.end()[0] == 3


@pytest.mark.unmeasured
def test_run_whose_owner_is_killed_is_lost_and_then_shown_from_its_log(project: Project) -> None:
    with (
        open_pty() as terminal,
        live(project, "run", hanging_job(project), "--json") as run,
    ):
        run.wait_event("agent_started")
        with (
            live(project, "view", "--json") as lines,
            on_terminal(project, terminal, "view", "--plain") as plain,
        ):
            terminal.wait_shown("fix: started (builder)")
            lines.wait_event("agent_started")
            with open_pty() as other, on_terminal(project, other, "view") as view:
                other.wait_shown("bash sleep 600")
                run.process.kill()
                assert view.wait() == 1
                other.wait_shown("nobody works on")
                assert other.is_cooked
            assert plain.wait() == 1
            code, _, err = lines.end()
            assert code == 1
            assert "nobody works on" in err
    stored = project.pinata("view", "--plain")
    assert stored.returncode == 0
    assert "fix: started (builder)" in stored.stdout
    assert f"pinata rerun {project.runs[0]}" in stored.stderr
    assert project.pinata("resume", project.runs[0]).returncode == 1


def test_lines_are_those_of_the_log_until_the_run_has_settled(project: Project) -> None:
    with live(project, "run", hanging_job(project), "--json", "--mode", "observe") as run:
        run.wait_event("tool_start")
        with live(project, "view", "--json") as view:
            view.wait_event("run_started")
            run.process.send_signal(signal.SIGINT)
            code, out, err = view.end()
            assert (code, err) == (0, "")
        run.end()
    logs = project.pinata("logs", "--json").stdout
    assert logs.endswith(out)
    assert types(out)[-1] == "run_settled"
    about = project.pinata("view", project.runs[0], "later", "--json")
    assert (about.returncode, types(about.stdout)) == (0, ["agent_queued", "agent_settled"])
    assert project.pinata("view", project.runs[0], "nobody").returncode == 2


def test_settled_run_is_shown_and_the_view_is_over(project: Project) -> None:
    nothing = project.pinata("view")
    assert (nothing.returncode, nothing.stdout) == (2, "")
    assert "there are no runs yet" in nothing.stderr
    job = project.job([scout("look")], {"look": [{"text": "All is well."} | reports()]})
    assert project.pinata("run", str(project.write_job(job))).returncode == 0
    with open_pty() as terminal:
        with on_terminal(project, terminal, "view") as view:
            assert view.wait() == 0
        terminal.wait_shown("✓ look")
        assert terminal.is_cooked
        with on_terminal(project, terminal, "view", project.runs[0][:4], "look") as view:
            terminal.wait_shown("assistant: All is well.")
            terminal.press(b"q")
            assert view.wait() == 0
