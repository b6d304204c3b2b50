"""A real Pi with our extension: without a person, in an agent, and with an unfit program."""

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.coordinators import Desk, open_desk
from tests.support.live import agents_left
from tests.support.projects import Project, reports, says, scout

pytestmark = [pytest.mark.slow, pytest.mark.unmeasured]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, {"a.txt": "one\n"})


@pytest.fixture
async def desk(project: Project) -> AsyncIterator[Desk]:
    async with open_desk(project) as opened:
        yield opened
    assert agents_left(project) == []


@pytest.mark.parametrize("mode", ["text", "json"])
async def test_session_without_a_person_waits_for_what_works(desk: Desk, mode: str) -> None:
    slow = {"look": [says("grep", pattern="one") | {"delayMs": 1500}, reports("it says one")]}
    job = desk.project.job([scout("look")], slow, background=True)
    desk.mind.will_say(says("pinata_run", **job), {"text": "It works."}, {"text": "It is so."})
    said = await desk.once("--mode", mode, "-p", "Look.")
    if mode == "text":
        assert said == "It is so.\n"
    else:
        assert json.loads(said.splitlines()[-1])["type"] == "agent_settled"
    (run,) = desk.project.runs
    assert f"Run {run} has ended: succeeded" in json.dumps(desk.mind.heard[-1].body)
    assert desk.told() == [f"{run}/1"]


def tools_offered(desk: Desk) -> set[str]:
    """Return which of our tools the model was last told of."""
    tools = desk.mind.heard[-1].body.get("tools", [])
    assert isinstance(tools, list)
    names = {tool["function"]["name"] for tool in tools}
    return {name for name in names if name.startswith("pinata")}


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder but for those that Pi itself keeps there."""
    own = {"auth.json", "models-store.json", "sessions", "npm", "bin"}
    files = [path for path in folder.rglob("*") if path.is_file()]
    kept = [path.relative_to(folder) for path in files]
    return {str(path): (folder / path).read_bytes() for path in kept if path.parts[0] not in own}


async def test_agent_is_offered_nothing(desk: Desk) -> None:
    desk.env["PINATA_AGENT"] = "1"
    async with desk.pi() as pi:
        await pi.prompt("Hello.")
        assert tools_offered(desk) == set()
        commands = (await pi.ask("get_commands"))["commands"]
        assert "pinata" not in [command["name"] for command in commands]
        assert pi.notices() == []
        assert [*desk.hosts(), *desk.bridges()] == []


async def test_session_offers_the_tools_and_writes_nothing_of_the_users(desk: Desk) -> None:
    before = contents(desk.agent_dir)
    async with desk.pi() as pi:
        await pi.prompt("Hello.")
        assert len(tools_offered(desk)) == 10
        assert (await pi.types("/pinata")).startswith("/pinata status")
        assert "unknown action" in await pi.types("/pinata fly")
    assert contents(desk.agent_dir) == before


BROKEN = f"""#!{sys.executable} -SE
import sys
sys.exit("Traceback (most recent call last):\\nModuleNotFoundError: No module named 'trio'")
"""
NEWER = """#!/bin/sh
read hello
echo '{"type": "welcome", "v": 2, "tools": [], "notices": []}'
read more
"""


@pytest.mark.parametrize(
    ("program", "says_why"),
    [
        (None, "it cannot be started: spawn {} ENOENT"),
        (BROKEN, "ModuleNotFoundError: No module named 'trio'"),
        (NEWER, "it speaks version 2, and not 1"),
    ],
    ids=["missing", "broken", "newer"],
)
async def test_session_with_an_unfit_program_says_why_and_works_without_it(
    desk: Desk, program: str | None, says_why: str
) -> None:
    path = desk.project.folder / "unfit"
    if program is not None:
        path.write_text(program)
        path.chmod(0o755)
    desk.env["PINATA_PROGRAM"] = str(path)
    async with desk.pi() as pi:
        assert pi.notices() == [f"pinata's tools are missing: {says_why.format(path)}"]
        await pi.prompt("Hello.")
        assert tools_offered(desk) == set()
        assert "not attached" in await pi.types("/pinata runs")
