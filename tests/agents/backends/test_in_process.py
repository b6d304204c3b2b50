from pathlib import Path

from agents.backends.attempt import RESULT_ONLY_TOOLS
from agents.budget import BudgetKind
from agents.loop import BudgetExceeded, NoResult, Submitted
from agents.models.port import (
    AnswerEnded,
    AnswerPiece,
    StopReason,
    TextPiece,
    ToolCall,
    UserMessage,
)
from agents.models.script import read_script
from agents.models.scripted import ScriptedModel
from engine.core.spec import Kind
from tests.support.agents import (
    FINGERPRINT,
    PieceModel,
    calls,
    open_studio,
    submits,
)

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = read_script(ROOT / "fixtures" / "scripts" / "kinds.yaml")
SILENT: list[AnswerPiece] = [TextPiece("Done."), AnswerEnded(StopReason.STOP)]


async def test_a_scripted_agent_of_each_kind_hands_in_its_result(tmp_path: Path) -> None:
    for task, kind in [
        ("look", Kind.READER),
        ("build", Kind.WRITER),
        ("review", Kind.REVIEWER),
    ]:
        folder = tmp_path / task
        folder.mkdir()
        studio = open_studio(folder, kind)
        studio.ownership = ("greeting.txt",) if kind is Kind.WRITER else ()
        outcome = await studio.play(SCRIPT, task, {"fingerprint": FINGERPRINT})
        assert isinstance(outcome, Submitted)
    assert (tmp_path / "build" / "workspace" / "greeting.txt").read_text() == "hello\n"


async def test_a_writer_may_write_only_what_it_owns(tmp_path: Path) -> None:
    studio = open_studio(tmp_path, Kind.WRITER)
    studio.ownership = ("other.txt",)
    outcome = await studio.play(SCRIPT, "build")
    assert isinstance(outcome, Submitted)
    assert list(studio.root.iterdir()) == []


async def test_the_result_only_retry_has_its_own_tools_and_prompt(tmp_path: Path) -> None:
    studio = open_studio(tmp_path, Kind.WRITER)
    studio.ownership = ("a.txt",)
    write = ToolCall("w", "write", {"path": "a.txt", "content": "x\n"})
    rewrite = ToolCall("v", "write", {"path": "a.txt", "content": "y\n"})
    model = PieceModel(
        [calls(write), SILENT, SILENT, calls(rewrite), submits(changedFiles=["a.txt"])]
    )
    async with studio.agent(model) as agent:
        assert isinstance(await agent.run("Write."), NoResult)
        outcome = await agent.run("Report.", RESULT_ONLY_TOOLS)
    assert isinstance(outcome, Submitted)
    assert (outcome.spent.turns, outcome.spent.tool_calls) == (5, 3)
    assert (studio.root / "a.txt").read_text() == "x\n"
    first, retry = model.shown[0], model.shown[-1]
    assert first[1] == ("read", "bash", "edit", "write", "submit_result")
    assert retry[1] == ("read", "grep", "find", "ls", "submit_result")
    assert first[0] != retry[0]
    assert model.asked[3] == (UserMessage("Report."),)
    assert model.answers_of_tools[0].is_error


async def test_the_result_only_retry_goes_on_with_the_same_budget_and_script(
    tmp_path: Path,
) -> None:
    studio = open_studio(tmp_path, Kind.WRITER, max_turns=3)
    model = ScriptedModel(SCRIPT, "x", "nobody", 1, {})
    async with studio.agent(model) as agent:
        assert isinstance(await agent.run("Write."), NoResult)
        outcome = await agent.run("Report.", RESULT_ONLY_TOOLS)
        assert isinstance(outcome, NoResult)
        assert outcome.spent.turns == 3
        exceeded = await agent.run("Once more.", RESULT_ONLY_TOOLS)
    assert isinstance(exceeded, BudgetExceeded)
    assert exceeded.which is BudgetKind.TURNS


async def test_siblings_get_the_same_prompt_and_tools(tmp_path: Path) -> None:
    shown = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        model = PieceModel([submits(brief=name)])
        await open_studio(folder).run(model, f"Brief of {name}.")
        shown.append(model.shown[0])
    assert shown[0] == shown[1]
    assert str(tmp_path) not in shown[0][0]
