"""A reader of the page about Pi sees what it shows, in a real Pi whose model plays its part."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import trio

from agents.models.script import Script, decode_script
from agents.pi_program import COORDINATOR
from engine.core.outcome import Status
from pinata.faces.board import Row
from pinata.faces.session_board import AgentRow, table
from pinata.faces.session_command import USAGE
from tests.support.coordinators import Mind, open_pi
from tests.support.model_server import Answer, ModelRequest, from_script, open_model_server
from tests.support.pi_agents import PROVIDER, write_models
from tests.support.programs import wait_end
from tests.support.projects import approves, says, statuses, submits
from tests.support.reader import Shell, blocks, page, rows
from tests.support.real_pi import NODE, PI

PAGE = page("pi.md")
WRONG, RIGHT = "cents // 100 * percent", "(cents * percent + 50) // 100"


def call() -> dict[str, Any]:
    """Return the call of the tool that the page shows."""
    (found,) = (block for block in blocks(PAGE, "json") if block.words == ("pinata_run",))
    loaded: dict[str, Any] = json.loads(found.text)
    return loaded


def agents() -> Script:
    """Return what the agents of that call say."""
    mends = says("edit", path="discount.py", edits=[{"oldText": WRONG, "newText": RIGHT}])
    turns = {
        "fix": [mends, submits(changedFiles=["discount.py"])],
        "review-fix": [approves()],
    }
    return decode_script(json.dumps(turns).encode(), "agents.json")


def words() -> list[str]:
    """Return what the page has its reader say, in order."""
    return [block.text.strip() for block in blocks(PAGE, "text") if block.words == ("you",)]


@pytest.mark.slow
@pytest.mark.unmeasured
async def test_first_change_in_pi_goes_as_shown(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "home", tools=(NODE.parent, PI.parent))
    before, rest = PAGE.split("## Have it fixed\n")
    asked, rest = rest.split("## Apply it\n")
    applied, rest = rest.split("## Take it back\n")
    taken_back, _ = rest.split("## Go on while agents work\n")
    mind, play = Mind(), from_script(agents())
    ask, apply, take_back = words()

    async def read(part: str) -> None:
        await trio.to_thread.run_sync(shell.follow, part)

    def answer(request: ModelRequest) -> Answer:
        return play(request) if "# Task " in request.first_text else mind.answer(request)

    async with open_model_server(answer) as server:
        write_models(shell.home / ".pi/agent", server)
        await read(before)
        env = shell.env | {"PI_OFFLINE": "1"}
        model = ("--model", f"{PROVIDER}/m1")
        async with open_pi(*model, cwd=shell.cwd, env=env) as pi:
            mind.will_say(says("pinata_run", **call()))
            await pi.prompt(ask)
            (answered,) = pi.tool_results("pinata_run")
            assert statuses(answered) == {"fix": "succeeded", "review-fix": "succeeded"}
            await read(asked)
            mind.will_say(says("pinata_integrate", run=answered["run"]))
            await pi.prompt(apply)
            assert pi.tool_results("pinata_integrate")[0]["status"] == "verified"
            await read(applied)
            mind.will_say(says("pinata_rollback", run=answered["run"], confirm=True))
            await pi.prompt(take_back)
            await read(taken_back)
            host = json.loads(next(shell.home.rglob("host.json")).read_text())["pid"]
        await wait_end(host)


def test_widget_is_what_a_session_shows() -> None:
    (shown,) = (block.text for block in blocks(PAGE, "text") if block.words == ("widget",))
    row = Row(Status.RUNNING, "fix", "0:14", "3", "2", "8.4k", "$0.03", "edit discount.py")
    assert table([AgentRow(row, "fix", "builder", "in-process")]) == shown.splitlines()


def test_commands_are_those_that_there_are() -> None:
    told = [cells[0].strip("`") for cells in rows(PAGE)]
    usage = [re.split(r"  +", line)[0] for line in USAGE.splitlines()]
    prompts = {f"/{path.stem}" for path in (COORDINATOR / "prompts").glob("*.md")}
    assert told[: len(usage)] == usage
    assert {each.split()[0] for each in told[len(usage) :]} == prompts
