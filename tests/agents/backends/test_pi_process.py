"""Agents that are a real Pi: what is Pi's own about them, and how they end."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from agents.loop import AgentLost, ProviderFailed, Submitted
from agents.models.script import decode_script
from agents.pi_program import PiProgram
from engine.core.events import ToolStarted
from engine.core.spec import Kind
from engine.system import family
from tests.support.model_server import Answer, ModelRequest, from_script
from tests.support.pi_agents import KEY, PiStudio
from tests.support.programs import is_running
from tests.support.projects import approves, reports, says, shell, submits

pytestmark = [pytest.mark.slow, pytest.mark.unmeasured]
LONG_S = 60
USAGE = {"input": 1_000, "output": 100}


def playing(*turns: dict[str, Any]) -> Callable[[ModelRequest], Answer]:
    """Return a model that says these turns, one after the other."""
    return from_script(decode_script(json.dumps({"any": list(turns)}).encode(), "test.json"))


async def test_a_reader_searches_with_pis_own_tools_and_costs_what_pi_says(tmp_path: Path) -> None:
    studio = PiStudio(tmp_path)
    studio.root.mkdir()
    (studio.root / "a.txt").write_text("hello\n")
    looks = says("grep", pattern="hel+o") | {"usage": USAGE}
    spies = says("grep", pattern="apiKey", path="..")
    async with studio.agent(playing(looks, spies, reports())) as (agent, _):
        outcome = await agent.run("Begin.")
    assert isinstance(outcome, Submitted)
    found = studio.texts("tool grep")
    assert found[0] == "a.txt:1: hello"
    assert "which no agent reads" in found[1]
    assert outcome.spent.usage.cost_usd == pytest.approx(0.0012)


@pytest.mark.parametrize("kind", [Kind.READER, Kind.REVIEWER])
async def test_who_only_reads_has_pis_own_search_for_files(tmp_path: Path, kind: Kind) -> None:
    studio = PiStudio(tmp_path, kind)
    (studio.root / "deep/er").mkdir(parents=True)
    for name in ("a.txt", "deep/er/b.txt", "deep/c.md"):
        (studio.root / name).write_text("hello\n")
    turns = [
        says("find", pattern="*.txt"),
        says("find", pattern="deep/**/*.txt"),
        says("find", pattern="*.json", path=".."),
        says("grep", pattern="hello", glob="*.md"),
        reports() if kind is Kind.READER else approves(),
    ]
    async with studio.agent(playing(*turns)) as (agent, _):
        assert isinstance(await agent.run("Begin."), Submitted)
    named, below, keys = studio.texts("tool find")
    assert named.splitlines() == ["a.txt", "deep/er/b.txt"]
    assert below == "deep/er/b.txt"
    assert "which no agent reads" in keys
    assert studio.texts("tool grep") == ["deep/c.md:1: hello"]


async def test_a_provider_that_refuses_for_good_fails_with_its_words(tmp_path: Path) -> None:
    studio = PiStudio(tmp_path)
    limited = {"error": "rate_limit"}
    async with studio.agent(playing(limited, limited, limited)) as (agent, _):
        outcome = await agent.run("Begin.")
    assert isinstance(outcome, ProviderFailed)
    assert "429" in outcome.message


async def test_no_tool_of_pis_reads_the_keys_and_no_command_sees_them(tmp_path: Path) -> None:
    studio = PiStudio(tmp_path, Kind.WRITER)
    turns = [says("read", path="../agent/models.json"), shell("env"), submits()]
    async with studio.agent(playing(*turns)) as (agent, _):
        assert isinstance(await agent.run("Begin."), Submitted)
    assert "which no agent reads" in studio.texts("tool read")[0]
    shown = studio.texts("tool bash")[0]
    assert "PINATA_AGENT=1" in shown
    assert "PINATA_CHILD" not in shown
    assert KEY not in (tmp_path / "conversation.jsonl").read_text()


async def test_calls_of_a_script_are_asked_about_and_counted_like_others(tmp_path: Path) -> None:
    studio = PiStudio(tmp_path, Kind.WRITER, ownership=("mine.txt",), codemode=True)
    script = """
    const done = [];
    for (const path of ["mine.txt", "yours.txt"]) {
      try { await tools.write({ path, content: "x" }); done.push(path); }
      catch (error) { done.push(error.message); }
    }
    try { await tools.submit_result({}); } catch (error) { done.push("no submit_result"); }
    try { await tools.codemode({ code: "1" }); } catch (error) { done.push("no codemode"); }
    return done;
    """
    turns = [says("codemode", code=script), submits(changedFiles=["mine.txt"])]
    async with studio.agent(playing(*turns)) as (agent, server):
        outcome = await agent.run("Begin.")
    assert isinstance(outcome, Submitted)
    assert [path.name for path in studio.root.iterdir()] == ["mine.txt"]
    said = studio.texts("tool codemode")[0]
    assert "this task may change" in said
    assert "no submit_result" in said
    assert "no codemode" in said
    tools = [note.tool for note in studio.notes if isinstance(note, ToolStarted)]
    assert tools[:3] == ["codemode", "write", "write"]
    assert outcome.spent.tool_calls == len(tools)
    assert "a script in JavaScript" in json.dumps(server.requests[0].body)


async def test_a_script_gives_a_reader_no_tool_that_it_has_not(tmp_path: Path) -> None:
    studio = PiStudio(tmp_path, codemode=True)
    script = """
    const done = [];
    for (const name of ["bash", "write", "edit", "powershell"]) {
      try { await tools[name]({ path: "a.txt", content: "x", command: "touch a.txt" }); }
      catch (error) { done.push(name); }
    }
    return done.join();
    """
    async with studio.agent(playing(says("codemode", code=script), reports())) as (agent, _):
        assert isinstance(await agent.run("Begin."), Submitted)
    assert list(studio.root.iterdir()) == []
    assert "bash,write,edit,powershell" in studio.texts("tool codemode")[0]


async def test_nothing_of_the_child_is_left_when_it_is_cancelled(tmp_path: Path) -> None:
    family.become_subreaper()
    studio = PiStudio(tmp_path, Kind.WRITER, mark="token/look.1")
    pids = tmp_path / "pids"
    command = f"echo $$ $PPID > {pids}; exec sleep 600"
    async with studio.agent(playing(shell(command), submits())) as (agent, _):
        with trio.fail_after(LONG_S):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(agent.run, "Begin.")
                while not pids.exists() or len(pids.read_text().split()) < 2:
                    await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()
    assert [pid for pid in map(int, pids.read_text().split()) if is_running(pid)] == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
async def test_a_child_that_dies_fails_within_seconds(
    tmp_path: Path, number: signal.Signals
) -> None:
    family.become_subreaper()
    studio = PiStudio(tmp_path, Kind.WRITER, mark="token/look.1")
    command = f"kill -{number.value} $PPID; exec sleep 600"
    async with studio.agent(playing(shell(command), submits())) as (agent, _):
        with trio.fail_after(LONG_S):
            outcome = await agent.run("Begin.")
    assert isinstance(outcome, AgentLost)
    assert outcome.message.startswith(f"Pi ended by itself, with signal {number.value}")


async def test_a_pi_that_cannot_start_fails_with_its_last_words(tmp_path: Path) -> None:
    studio = PiStudio(tmp_path)
    broken = tmp_path / "broken.mjs"
    broken.write_text("console.error('no way'); process.exit(7)")
    real = await studio.program()
    pi = PiProgram(broken, real.version, real.node, real.node_version)
    async with studio.agent(playing(reports()), pi) as (agent, _):
        outcome = await agent.run("Begin.")
    assert isinstance(outcome, AgentLost)
    assert outcome.message == "Pi ended by itself, with code 7; it last said: no way"
    gone = PiProgram(broken, real.version, tmp_path / "no-node", real.node_version)
    (tmp_path / "conversation.jsonl").unlink()
    async with studio.agent(playing(reports()), gone) as (agent, _):
        outcome = await agent.run("Begin.")
    assert isinstance(outcome, AgentLost)
    assert "cannot start" in outcome.message
