"""A real Pi on a terminal, with our extension installed: what a person sees of runs."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import trio

from tests.support.coordinators import Desk, open_desk
from tests.support.programs import Beacon, open_beacon
from tests.support.projects import Project, builder, says, shell, submits
from tests.support.terminals import open_pty

pytestmark = [pytest.mark.slow, pytest.mark.unmeasured]
PATIENCE_S = 30


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, {"a.txt": "one\n"})


@pytest.fixture
async def desk(project: Project) -> AsyncIterator[Desk]:
    async with open_desk(project) as opened:
        yield opened


@pytest.fixture
def beacon(tmp_path: Path) -> Iterator[Beacon]:
    os.mkfifo(tmp_path / "go")
    with open_beacon(tmp_path) as opened:
        yield opened


async def test_person_sees_progress_the_widget_the_end_and_the_status(
    desk: Desk, beacon: Beacon
) -> None:
    project = desk.project
    assert project.pinata("install", "pi", env=desk.environment).returncode == 0
    pause = shell(f"echo $$ > {beacon.path}; read line < {beacon.path.with_name('go')}")
    script = {"fix": [pause, shell("echo two > a.txt"), submits(changedFiles=["a.txt"])]}
    job = project.job([builder("fix", "a.txt")], script)
    behind = job | {"background": True}
    desk.mind.will_say(says("pinata_run", **job), {"text": "It is mended."})
    desk.mind.will_say(says("pinata_run", **behind), {"text": "I wait."}, {"text": "I have heard."})

    async def wait_agent() -> None:
        with trio.fail_after(PATIENCE_S):
            await beacon.pid()

    def let_go() -> None:
        beacon.path.with_name("go").write_text("\n")

    def sit_before_it() -> None:
        with open_pty(120, 48) as terminal, desk.on_terminal(terminal) as process:
            # The resources that were loaded are listed when all of them have started.
            terminal.wait_shown("  coordinator")
            terminal.press(b"Have it mended.\r")
            trio.from_thread.run(wait_agent)
            terminal.wait_shown("task agent   backend    time turns calls tokens cost")
            terminal.wait_shown("▸ fix  builder in-process")
            terminal.wait_shown("tasks have settled; fix: bash echo")
            terminal.wait_shown("pinata: 1 agent at work in 1 run, 0 of 1 task settled")
            let_go()
            terminal.wait_shown("It is mended.")
            terminal.wait(lambda: not any("at work" in line for line in terminal.lines))
            terminal.press(b"Once more, behind me.\r")
            trio.from_thread.run(wait_agent)
            terminal.wait_shown("I wait.")
            terminal.wait_shown("▸ fix  builder in-process")
            let_go()
            terminal.wait_shown("has ended: succeeded (1 succeeded)")
            terminal.wait_shown("I have heard.")
            terminal.press(b"/pinata status\r")
            terminal.wait_shown("✓ fix  succeeded (builder)")
            terminal.wait(lambda: not any("▸ fix" in line for line in terminal.lines))
            terminal.press(b"\x04")
            process.wait()

    await trio.to_thread.run_sync(sit_before_it)
    assert len(desk.told()) == 2
