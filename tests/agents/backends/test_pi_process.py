"""Agents that are a real Pi: what every backend promises, and what only processes can do wrong."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from agents.backends.attempt import RESULT_ONLY_TOOLS
from agents.budget import Budget, BudgetKind
from agents.loop import REMINDER, AgentLost, BudgetExceeded, NoResult, ProviderFailed, Submitted
from agents.models.script import decode_script
from agents.pi_program import PiProgram
from agents.purse import Purse
from engine.core.events import (
    MessageEnded,
    ModelThrottled,
    Sender,
    TextDelta,
    ToolEnded,
    ToolStarted,
    TurnStarted,
    UsageReported,
)
from engine.core.ids import AttemptId, TaskId
from engine.core.spec import Kind
from engine.system import family
from tests.support.agents import FINGERPRINT
from tests.support.model_server import Answer, ModelRequest, from_script
from tests.support.pi_agents import KEY, PiStudio
from tests.support.programs import is_running
from tests.support.projects import approves, reports, says, shell, submits

pytestmark = pytest.mark.slow
ATTEMPT = AttemptId(TaskId("look"), 1)
LONG_S = 60
USAGE = {"input": 1_000, "output": 100}


def playing(*turns: dict[str, Any]) -> Callable[[ModelRequest], Answer]:
    """Return a model that says these turns, one after the other."""
    return from_script(decode_script(json.dumps({"any": list(turns)}).encode(), "test.json"))


async def test_a_reader_looks_with_pis_own_tools_and_hands_in(tmp_path: Path) -> None:
    studio = PiStudio(tmp_path)
    studio.root.mkdir()
    (studio.root / "a.txt").write_text("hello\n")
    looks = {"text": "I look.", "usage": USAGE} | says("read", path="a.txt")
    async with studio.agent(playing(looks, reports())) as (agent, server):
        outcome = await agent.run("Begin.")
    assert isinstance(outcome, Submitted)
    assert outcome.submission.brief == "it is so"
    assert (outcome.spent.turns, outcome.spent.tool_calls) == (2, 2)
    assert "hello" in studio.texts("tool read")[0]
    assert len(server.requests) == 2
    kinds = [type(note) for note in studio.notes if not isinstance(note, UsageReported)]
    assert kinds[:5] == [TurnStarted, TextDelta, MessageEnded, ToolStarted, ToolEnded]
    started = next(note for note in studio.notes if isinstance(note, ToolStarted))
    assert (started.attempt, started.tool, started.summary) == (ATTEMPT, "read", "a.txt")
    last = [note for note in studio.notes if isinstance(note, UsageReported)][-1]
    assert (last.turns, last.tool_calls) == (2, 2)
    assert (last.input_tokens, last.output_tokens) == (1_000, 100)
    assert last.cost_usd == pytest.approx(0.0012)


async def test_a_writer_writes_what_it_owns_and_nothing_else(tmp_path: Path) -> None:
    studio = PiStudio(tmp_path, Kind.WRITER, ownership=("mine.txt",))
    turns = [
        says("write", path="mine.txt", content="x\n"),
        says("write", path="yours.txt", content="x\n"),
        says("write", path="../outside.txt", content="x\n"),
        submits(changedFiles=["mine.txt"]),
    ]
    async with studio.agent(playing(*turns)) as (agent, _):
        outcome = await agent.run("Begin.")
    assert isinstance(outcome, Submitted)
    assert outcome.spent.refused_calls == 2
    assert [path.name for path in studio.root.iterdir()] == ["mine.txt"]
    assert not (tmp_path / "outside.txt").exists()
    assert "this task may change" in studio.texts("tool write")[1]


async def test_a_reviewer_is_held_to_its_own_form(tmp_path: Path) -> None:
    studio = PiStudio(tmp_path, Kind.REVIEWER)
    async with studio.agent(playing(reports(), approves())) as (agent, _):
        outcome = await agent.run("Begin.")
    assert isinstance(outcome, Submitted)
    assert outcome.submission.fingerprint == FINGERPRINT
    assert outcome.spent.refused_calls == 1


async def test_an_agent_that_stops_is_reminded_once(tmp_path: Path) -> None:
    studio = PiStudio(tmp_path)
    async with studio.agent(playing({"text": "Hm."}, {"text": "Hm?"})) as (agent, server):
        outcome = await agent.run("Begin.")
    assert isinstance(outcome, NoResult)
    assert len(server.requests) == 2
    assert REMINDER in json.dumps(server.requests[1].body)


async def test_the_result_only_retry_goes_on_with_tools_that_only_read(tmp_path: Path) -> None:
    studio = PiStudio(tmp_path, Kind.WRITER, ownership=("a.txt",))
    turns = [{"text": "."}, {"text": "."}, says("write", path="a.txt", content="x"), submits()]
    async with studio.agent(playing(*turns)) as (agent, server):
        assert isinstance(await agent.run("Begin."), NoResult)
        outcome = await agent.run("Report.", RESULT_ONLY_TOOLS)
    assert isinstance(outcome, Submitted)
    assert outcome.spent.turns == 4
    assert list(studio.root.iterdir()) == []
    assert "Report." in json.dumps(server.requests[2].body)


@pytest.mark.parametrize(
    ("limits", "which"),
    [
        ({"max_turns": 1, "max_tool_calls": 9}, BudgetKind.TURNS),
        ({"max_turns": 9, "max_tool_calls": 1}, BudgetKind.TOOL_CALLS),
        ({"max_turns": 9, "max_tool_calls": 9, "purse": Purse(1e-9)}, BudgetKind.COST),
    ],
)
async def test_budgets_are_held_from_outside(
    tmp_path: Path, limits: dict[str, Any], which: BudgetKind
) -> None:
    studio = PiStudio(tmp_path, budget=Budget(**limits))
    looks = says("ls", path=".") | {"usage": USAGE}
    turns = [looks, looks, reports()]
    async with studio.agent(playing(*turns)) as (agent, _):
        outcome = await agent.run("Begin.")
    assert isinstance(outcome, BudgetExceeded)
    assert outcome.which is which


async def test_messages_reach_an_agent_at_work_and_one_that_would_stop(tmp_path: Path) -> None:
    studio = PiStudio(tmp_path, Kind.WRITER)
    told = iter(["Mind the gap.", "And then?"])

    def tell(request: ModelRequest) -> Answer:
        text = next(told, None)
        if text is not None:
            studio.steers.post(text, follow_up=text.endswith("?"), sender=Sender.USER)
        return answers(request)

    answers = playing(shell("true"), {"text": "I stop."}, submits())
    async with studio.agent(tell) as (agent, server):
        outcome = await agent.run("Begin.")
    assert isinstance(outcome, Submitted)
    assert "Mind the gap." in json.dumps(server.requests[1].body)
    assert "And then?" in json.dumps(server.requests[2].body)


async def test_a_result_waits_for_messages_that_were_not_read(tmp_path: Path) -> None:
    studio = PiStudio(tmp_path)
    studio.steers.post("Read me first.", follow_up=True)
    async with studio.agent(playing(reports(), {"text": "."}, reports())) as (agent, server):
        outcome = await agent.run("Begin.")
    assert isinstance(outcome, Submitted)
    assert "Read me first." in json.dumps(server.requests[-1].body)


async def test_refusals_of_the_provider_are_told_and_tried_again(tmp_path: Path) -> None:
    studio = PiStudio(tmp_path)
    limited = {"error": "rate_limit"}
    async with studio.agent(playing(limited, reports())) as (agent, _):
        outcome = await agent.run("Begin.")
    assert isinstance(outcome, Submitted)
    assert any(isinstance(note, ModelThrottled) for note in studio.notes)


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
