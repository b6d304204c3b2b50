"""What the page about MCP clients shows can be used as it stands."""

import json

from engine.core.ids import RunId
from pinata.faces.arguments import parse
from pinata.faces.call_progress import PAUSE_S, SILENCE_S
from tests.support.reader import blocks, page

MCP = page("mcp.md")


def test_entry_starts_the_command() -> None:
    (entry,) = json.loads(blocks(MCP, "json")[0].text)["mcpServers"].values()
    assert entry["command"] == "pinata"
    given = parse(entry["args"])
    assert (given.command, given.trust_project) == ("mcp", False)
    assert '`"args": ["mcp", "--trust-project"]`' in MCP
    assert parse(["mcp", "--trust-project"]).trust_project is True


def test_answer_is_that_of_a_run_in_the_background() -> None:
    answer = json.loads(blocks(MCP, "json")[1].text)
    run = RunId(answer["run"])
    assert answer["dir"].endswith(f"/.git/pinata/{run}")
    assert answer == {**answer, "status": "running", "background": True}


def test_progress_is_told_as_often_as_it_says() -> None:
    assert "at\nmost four times a second, and otherwise every ten seconds" in MCP
    assert (PAUSE_S, SILENCE_S) == (1 / 4, 10)
