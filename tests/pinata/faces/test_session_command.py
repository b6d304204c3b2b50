"""What is typed after `/pinata`: texts as the command line prints them, for runs of a session."""

from dataclasses import replace
from pathlib import Path

import pytest

from engine.core.errors import PinataError
from engine.system.clock import SystemClock
from pinata.faces import cli
from pinata.faces.session_board import SessionBoard
from pinata.faces.session_command import USAGE, SessionCommands
from tests.support.hosted import host_context, hosted
from tests.support.projects import Project, reports, scout, statuses

pytestmark = pytest.mark.slow

LOOKS = {"look": [reports(summary="looked well")]}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, {"a.txt": "one\n"})


async def types(project: Project, text: str, board: SessionBoard | None = None) -> str:
    """Type something in a session that stands in the project, and return what it shows."""
    assert project.runtime is not None
    commands = SessionCommands(project.runtime, board or SessionBoard(SystemClock()))
    context = replace(host_context(project), cwd=project.repo.root)
    return await commands.carry_out(context, text)


async def refusal(project: Project, text: str) -> str:
    with pytest.raises(PinataError) as caught:
        await types(project, text)
    return str(caught.value)


async def test_texts_are_those_of_the_command_line(project: Project) -> None:
    async with hosted(project):
        run = (await project.run([scout("look")], LOOKS))["run"]
        shown = {
            text: await types(project, text)
            for text in ("status", "runs", f"status {run[:8]} look", "runs --json")
        }
        told = await types(project, "gc")
        assert told == f"would retire run {run[:8]}\nnothing was changed: add --confirm to do it\n"
    for text, told in shown.items():
        assert project.pinata(*text.split(), env={"COLUMNS": "80"}).stdout == told
    assert "looked well" in shown["status"]


async def test_run_is_watched_and_opened_by_the_beginning_of_its_id(project: Project) -> None:
    async with hosted(project):
        assert await refusal(project, "watch") == "there are no runs yet"
        run = (await project.run([scout("look")], LOOKS))["run"]
        title, headings, look, total = (await types(project, f"watch {run[:6]}")).splitlines()
        assert title == f"run {run[:8]} succeeded, 1 succeeded"
        assert headings.split() == ["task", "agent", "time", "turns", "calls", "tokens", "cost"]
        assert look.split()[:3] == ["✓", "look", "scout"]
        assert total.startswith("0:0")
        root = project.repo.root
        told = f"in another terminal: cd {root} && pinata view {run[:8]}"
        assert await types(project, "open") == f"{told}\n"
        assert await types(project, f"open {run} look") == f"{told} look\n"
        assert await refusal(project, f"open {run} fix") == f'run {run[:8]} has no task "fix"'


async def test_watched_run_of_the_session_shows_what_its_agents_do(project: Project) -> None:
    board = SessionBoard(SystemClock())
    async with hosted(project):
        assert project.runtime is not None
        project.runtime._onlooker = board
        job = project.job([scout("look")], {"look": [{"hang": True}]}, background=True)
        begun = await project.call("pinata_run", job)
        while board.shown().lines is None:
            await board._news.wait()
        (line,) = (await types(project, "watch", board)).splitlines()[2:-1]
        assert line.split()[:3] == ["▸", "look", "scout"]
        await project.call("pinata_cancel", {"run": begun["run"]})


async def test_rerun_goes_on_in_the_background_and_is_told(project: Project) -> None:
    async with hosted(project) as (deliveries, ends):
        run = (await project.run([scout("look")], LOOKS))["run"]
        assert (await refusal(project, f"rerun {run}")).startswith("no task of the run was lost")
        log = project.repo.root / ".git" / "pinata" / run / "events.jsonl"
        lines = log.read_text().splitlines(keepends=True)
        begun = next(at for at, line in enumerate(lines) if "agent_started" in line)
        log.write_text("".join(lines[: begun + 1]))
        for left in log.parent.glob("*/look*"):
            left.unlink()
        short = run[:8]
        told = f"run {short} goes on; /pinata status {short} tells how it stands\n"
        assert await types(project, f"rerun {short}") == told
        await ends.wait_next()
        (owed,) = await deliveries.pending()
        assert (owed.run, statuses(dict(owed.answer))) == (run, {"look": "succeeded"})


async def test_what_cannot_be_meant_is_told_in_a_sentence(project: Project) -> None:
    async with hosted(project):
        for text in ("", "  ", "help", "--help"):
            assert await types(project, text) == USAGE
        assert await refusal(project, "fly away") == (
            'unknown action "fly": try one of status, runs, watch, open, rerun, gc'
        )
        assert await refusal(project, "status 'one") == "cannot read that: no closing quotation"
        assert "see pinata rerun --help" in await refusal(project, "rerun")
        assert (await types(project, "rerun --help")).startswith("usage: pinata rerun")
        assert (await refusal(project, "status abc")).startswith('unknown run "abc"')


def test_usage_names_every_action_of_the_command_line() -> None:
    for line in USAGE.splitlines():
        assert line.startswith("/pinata ")
        action = line.split()[1]
        assert action in {"watch", "open"} or action in cli._MODULES
