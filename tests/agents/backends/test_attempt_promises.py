"""What every backend promises, tried with each of them."""

from pathlib import Path
from typing import Any

import pytest
import trio

from agents.backends.attempt import RESULT_ONLY_TOOLS
from agents.budget import Budget, BudgetKind
from agents.loop import REMINDER, BudgetExceeded, NoResult, ProviderFailed, Submitted
from agents.purse import Purse
from engine.core.events import (
    MessageEnded,
    ModelThrottled,
    TextDelta,
    ToolEnded,
    ToolStarted,
    TurnStarted,
    UsageReported,
)
from engine.core.spec import Kind
from engine.system import family
from tests.support.agents import FINGERPRINT
from tests.support.benches import ATTEMPT, Bench, InProcessBench, PiBench
from tests.support.programs import is_running
from tests.support.projects import approves, reports, says, shell, submits

LONG_S = 60
USAGE = {"input": 1_000, "output": 100}
SCRIPTS = {
    InProcessBench: """
done = []
for path in ["mine.txt", "yours.txt"]:
    try:
        write(path=path, content="x")
        done.append(path)
    except RuntimeError as error:
        done.append(str(error))
done
""",
    PiBench: """
const done = [];
for (const path of ["mine.txt", "yours.txt"]) {
  try { await tools.write({ path, content: "x" }); done.push(path); }
  catch (error) { done.push(error.message); }
}
return done;
""",
}


@pytest.fixture(
    params=[InProcessBench, pytest.param(PiBench, marks=pytest.mark.slow)],
    ids=["in-process", "process"],
)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    """A bench with one of the backends."""
    made: Bench = request.param(tmp_path)
    made.root.mkdir()
    return made


async def test_a_reader_looks_and_hands_in(bench: Bench) -> None:
    (bench.root / "a.txt").write_text("hello\n")
    looks = {"text": "I look.", "usage": USAGE} | says("read", path="a.txt")
    outcome = await bench.run(looks, reports())
    assert isinstance(outcome, Submitted)
    assert outcome.submission.brief == "it is so"
    assert (outcome.spent.turns, outcome.spent.tool_calls) == (2, 2)
    assert "hello" in bench.texts("tool read")[0]
    kinds = [type(note) for note in bench.notes if not isinstance(note, UsageReported)]
    assert kinds[:5] == [TurnStarted, TextDelta, MessageEnded, ToolStarted, ToolEnded]
    started = next(note for note in bench.notes if isinstance(note, ToolStarted))
    assert (started.attempt, started.tool, started.summary) == (ATTEMPT, "read", "a.txt")
    last = [note for note in bench.notes if isinstance(note, UsageReported)][-1]
    assert (last.turns, last.tool_calls) == (2, 2)
    assert (last.input_tokens, last.output_tokens) == (1_000, 100)


async def test_the_transcript_holds_all_that_was_said_in_order(bench: Bench) -> None:
    outcome = await bench.run({"text": "I look."} | says("ls", path="."), {"text": "."}, reports())
    assert isinstance(outcome, Submitted)
    roles = [message.role for message in bench.transcript()]
    assert roles[:4] == ["user", "assistant", "tool ls", "assistant"]
    assert roles[-2:] == ["assistant", "tool submit_result"]
    assert bench.texts("user") == ["Begin.", REMINDER]
    assert '[calls ls {"path": "."}]' in bench.texts("assistant")[0]


async def test_a_writer_changes_what_it_owns_and_nothing_else(bench: Bench) -> None:
    bench.kind, bench.ownership = Kind.WRITER, ("mine.txt",)
    outcome = await bench.run(
        says("write", path="mine.txt", content="x\n"),
        says("write", path="yours.txt", content="x\n"),
        says("write", path="../outside.txt", content="x\n"),
        submits(changedFiles=["mine.txt"]),
    )
    assert isinstance(outcome, Submitted)
    assert outcome.spent.refused_calls == 2
    assert [path.name for path in bench.root.iterdir()] == ["mine.txt"]
    assert not (bench.folder / "outside.txt").exists()
    assert "this task may change" in bench.texts("tool write")[1]


async def test_calls_out_of_a_script_are_guarded_and_counted_like_others(bench: Bench) -> None:
    bench.kind, bench.ownership, bench.codemode = Kind.WRITER, ("mine.txt",), True
    code = SCRIPTS[type(bench)]
    outcome = await bench.run(says("codemode", code=code), submits(changedFiles=["mine.txt"]))
    assert isinstance(outcome, Submitted)
    assert [path.name for path in bench.root.iterdir()] == ["mine.txt"]
    assert "this task may change" in bench.texts("tool codemode")[0]
    assert outcome.spent.tool_calls == 4


async def test_no_tool_reads_the_keys(bench: Bench) -> None:
    outcome = await bench.run(says("read", path="../agent/models.json"), reports())
    assert isinstance(outcome, Submitted)
    assert "which no agent reads" in bench.texts("tool read")[0]


async def test_a_reviewer_is_held_to_its_own_form(bench: Bench) -> None:
    bench.kind = Kind.REVIEWER
    outcome = await bench.run(reports(), approves())
    assert isinstance(outcome, Submitted)
    assert outcome.submission.fingerprint == FINGERPRINT
    assert outcome.spent.refused_calls == 1


async def test_an_agent_that_stops_is_reminded_once(bench: Bench) -> None:
    outcome = await bench.run({"text": "Hm."}, {"text": "Hm?"})
    assert isinstance(outcome, NoResult)
    assert len(bench.shown) == 2
    assert REMINDER in bench.shown[1]


async def test_why_the_last_result_was_refused_is_kept(bench: Bench) -> None:
    outcome = await bench.run(submits(), {"text": "."}, {"text": "."})
    assert isinstance(outcome, NoResult)
    assert "brief" in outcome.refused


async def test_the_result_only_retry_has_tools_that_only_read(bench: Bench) -> None:
    bench.kind, bench.ownership = Kind.WRITER, ("a.txt",)
    turns = [{"text": "."}, {"text": "."}, says("write", path="a.txt", content="x"), submits()]
    async with bench.agent(*turns) as agent:
        assert isinstance(await agent.run("Begin."), NoResult)
        outcome = await agent.run("Report.", RESULT_ONLY_TOOLS)
    assert isinstance(outcome, Submitted)
    assert outcome.spent.turns == 4
    assert list(bench.root.iterdir()) == []
    assert "Report." in bench.shown[2]


@pytest.mark.parametrize(
    ("limits", "which"),
    [
        ({"max_turns": 1, "max_tool_calls": 9}, BudgetKind.TURNS),
        ({"max_turns": 9, "max_tool_calls": 1}, BudgetKind.TOOL_CALLS),
    ],
)
async def test_budgets_are_held(bench: Bench, limits: dict[str, Any], which: BudgetKind) -> None:
    bench.budget = Budget(**limits)
    outcome = await bench.run(says("ls", path="."), says("ls", path="."), reports())
    assert isinstance(outcome, BudgetExceeded)
    assert outcome.which is which


async def test_the_limit_in_dollars_is_held(bench: Bench) -> None:
    bench.budget = Budget(max_turns=9, max_tool_calls=9, purse=Purse(1e-9))
    costly: dict[str, Any] = says("ls", path=".") | {"usage": USAGE | {"costUsd": 0.0012}}
    outcome = await bench.run(costly, reports())
    assert isinstance(outcome, BudgetExceeded)
    assert outcome.which is BudgetKind.COST


async def test_messages_reach_an_agent_at_work_and_one_that_would_stop(bench: Bench) -> None:
    bench.kind = Kind.WRITER
    told = {0: "Mind the gap.", 1: "And then?"}

    def tell(number: int) -> None:
        if number in told:
            bench.steers.post(told[number], follow_up=told[number].endswith("?"))

    bench.asked = tell
    outcome = await bench.run(shell("true"), {"text": "I stop."}, submits())
    assert isinstance(outcome, Submitted)
    assert told[0] in bench.shown[1]
    assert told[1] in bench.shown[2]


async def test_a_result_waits_for_messages_that_were_not_read(bench: Bench) -> None:
    bench.asked = lambda number: (
        bench.steers.post("Read me first.", follow_up=False) if number == 0 else None
    )
    outcome = await bench.run(reports("too early"), reports("in time"))
    assert isinstance(outcome, Submitted)
    assert outcome.submission.brief == "in time"
    assert "Read me first." in bench.shown[1]


async def test_a_provider_that_has_enough_is_told_and_asked_again(bench: Bench) -> None:
    outcome = await bench.run({"error": "rate_limit"}, reports())
    assert isinstance(outcome, Submitted)
    assert outcome.spent.turns == 1
    assert any(isinstance(note, ModelThrottled) for note in bench.notes)


async def test_a_model_that_always_breaks_off_fails_with_the_reason(bench: Bench) -> None:
    outcome = await bench.run(*[{"error": "disconnect"}] * 9)
    assert isinstance(outcome, ProviderFailed)
    assert outcome.message
    assert outcome.spent.turns == 1


async def test_nothing_is_left_of_an_agent_that_is_cancelled(bench: Bench) -> None:
    family.become_subreaper()
    bench.kind, bench.mark = Kind.WRITER, "token/look.1"
    pids = bench.folder / "pids"
    async with bench.agent(shell(f"echo $$ > {pids}; exec sleep 600"), submits()) as agent:
        with trio.fail_after(LONG_S):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(agent.run, "Begin.")
                while not pids.exists() or not pids.read_text().endswith("\n"):
                    await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()
    assert not is_running(int(pids.read_text()))
    assert bench.texts("user")[0] == "Begin."
