"""Scripts of an agent that a real loop leads: counted, noted and guarded like other calls."""

from pathlib import Path

from agents.backends.attempt import RESULT_ONLY_TOOLS
from agents.budget import BudgetKind
from agents.loop import BudgetExceeded, NoResult, Submitted
from agents.models.port import AnswerEnded, AnswerPiece, StopReason, TextPiece, ToolCall
from engine.core.events import ToolEnded, ToolStarted
from engine.core.spec import Kind
from tests.support.agents import PieceModel, Studio, calls, open_studio, submits

SILENT: list[AnswerPiece] = [TextPiece("Done."), AnswerEnded(StopReason.STOP)]


def script(code: str) -> list[AnswerPiece]:
    return calls(ToolCall("s", "codemode", {"code": code}))


def studio_with_codemode(
    tmp_path: Path, kind: Kind = Kind.READER, *, max_tool_calls: int = 40
) -> Studio:
    studio = open_studio(tmp_path, kind, max_tool_calls=max_tool_calls)
    studio.codemode = True
    return studio


async def test_each_call_of_a_script_counts_and_is_noted_like_any_other(tmp_path: Path) -> None:
    studio = studio_with_codemode(tmp_path)
    (studio.root / "a.txt").write_text("hello")
    model = PieceModel([script('read("a.txt") + read(path="a.txt")'), submits(brief="x")])
    outcome = await studio.run(model)
    assert isinstance(outcome, Submitted)
    assert outcome.spent.tool_calls == 4
    assert model.answers_of_tools[0].text == "hellohello"
    noted = [
        (type(note), note.tool)
        for note in studio.notes
        if isinstance(note, ToolStarted | ToolEnded)
    ]
    assert noted[:6] == [
        (ToolStarted, "codemode"),
        (ToolStarted, "read"),
        (ToolEnded, "read"),
        (ToolStarted, "read"),
        (ToolEnded, "read"),
        (ToolEnded, "codemode"),
    ]


async def test_a_script_that_calls_too_often_ends_the_attempt(tmp_path: Path) -> None:
    studio = studio_with_codemode(tmp_path, max_tool_calls=2)
    code = """
try:
    for _ in range(3):
        read("a.txt")
        read("a.txt")
except BaseException:
    pass
"""
    (studio.root / "a.txt").write_text("hello")
    outcome = await studio.run(PieceModel([script(code), submits(brief="x")]))
    assert isinstance(outcome, BudgetExceeded)
    assert outcome.which is BudgetKind.TOOL_CALLS
    started = [note.tool for note in studio.notes if isinstance(note, ToolStarted)]
    assert started == ["codemode", "read"]


async def test_a_script_does_not_hand_in_the_result(tmp_path: Path) -> None:
    studio = studio_with_codemode(tmp_path)
    model = PieceModel([script('submit_result(status="succeeded")'), submits(brief="x")])
    assert isinstance(await studio.run(model), Submitted)
    assert "submit_result cannot be called from a script" in model.answers_of_tools[0].text


async def test_an_argument_that_is_no_json_is_refused_inside_the_script(tmp_path: Path) -> None:
    studio = studio_with_codemode(tmp_path)
    model = PieceModel([script("read(path={1})"), submits(brief="x")])
    assert isinstance(await studio.run(model), Submitted)
    assert "read: the arguments are not JSON" in model.answers_of_tools[0].text


async def test_the_result_only_retry_keeps_codemode_with_its_shorter_tools(
    tmp_path: Path,
) -> None:
    studio = studio_with_codemode(tmp_path, Kind.WRITER)
    studio.ownership = ("a.txt",)
    write = 'write(path="a.txt", content="x")'
    model = PieceModel([SILENT, SILENT, script(write), submits()])
    async with studio.agent(model) as agent:
        assert isinstance(await agent.run("Write."), NoResult)
        assert isinstance(await agent.run("Report.", RESULT_ONLY_TOOLS), Submitted)
    first, retry = model.shown[0], model.shown[-1]
    assert first[1] == ("read", "bash", "edit", "write", "codemode", "submit_result")
    assert retry[1] == ("read", "grep", "find", "ls", "codemode", "submit_result")
    assert "with `codemode`" in retry[0].lower()
    assert "bash(" not in retry[0]
    assert '"write" is not yours to call' in model.answers_of_tools[0].text
    assert list(studio.root.iterdir()) == []


async def test_siblings_with_codemode_share_prompt_and_tools_to_the_byte(tmp_path: Path) -> None:
    shown = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        model = PieceModel([submits(brief=name)])
        await studio_with_codemode(tmp_path / name).run(model, f"Brief of {name}.")
        shown.append(model.shown[0])
    assert shown[0] == shown[1]
    assert str(tmp_path) not in shown[0][0]
