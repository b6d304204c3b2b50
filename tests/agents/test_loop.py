import json
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from agents.budget import BudgetKind, Spent
from agents.loop import (
    REMINDER,
    BudgetExceeded,
    NoResult,
    ProviderFailed,
    Submitted,
)
from agents.models.port import (
    AnswerEnded,
    AnswerFailed,
    AnswerPiece,
    AssistantMessage,
    StopReason,
    TextPiece,
    ThinkingPiece,
    Thought,
    ThoughtEnded,
    ToolCall,
    ToolMessage,
    Trouble,
    Usage,
    UserMessage,
)
from agents.models.script import read_script
from agents.retry import DISCONNECTED_TRIES
from agents.submission import Submission
from engine.core.events import (
    MessageEnded,
    ModelThrottled,
    TextDelta,
    ThinkingDelta,
    ToolEnded,
    ToolStarted,
    ToolUpdated,
    TurnStarted,
    UsageReported,
)
from engine.core.ids import AttemptId, TaskId
from engine.core.outcome import Status
from engine.core.spec import Kind
from tests.support.agents import (
    PieceModel,
    calls,
    open_studio,
    result,
    script_of,
    submits,
)

LOOK = AttemptId(TaskId("look"), 1)
DONE = Submission(Status.SUCCEEDED, "all is well")
ROOT = Path(__file__).resolve().parents[2]
READ = ToolCall("a", "read", {"path": "a.txt"})
SAY: list[AnswerPiece] = [TextPiece("I am done."), AnswerEnded(StopReason.STOP)]


async def test_events_tell_the_whole_story_in_order(tmp_path: Path) -> None:
    studio = open_studio(tmp_path, Kind.WRITER)
    (studio.root / "a.txt").write_text("hello\n")
    script = script_of("""\
        look:
          - thinking: hm
            text: I look.
            calls: [{tool: read, arguments: {path: a.txt}}]
            usage: {input: 10, output: 5, costUsd: 0.25}
          - calls:
              - tool: submit_result
                arguments:
                  {status: succeeded, summary: all is well, changedFiles: [], checks: [],
                   findings: [], blockers: []}
            usage: {input: 20, output: 1, costUsd: 0.5}
    """)
    spent = Spent(2, 2, Usage(30, 6, 0.75))
    assert await studio.play(script) == Submitted(DONE, spent)
    assert studio.notes == [
        TurnStarted(LOOK, 1),
        ThinkingDelta(LOOK, "hm"),
        TextDelta(LOOK, "I look."),
        MessageEnded(LOOK, "toolUse"),
        UsageReported(LOOK, 1, 0, 10, 5, 0.25),
        ToolStarted(LOOK, "call_1_1", "read", "a.txt"),
        ToolEnded(LOOK, "call_1_1", "read", is_error=False),
        UsageReported(LOOK, 1, 1, 10, 5, 0.25),
        TurnStarted(LOOK, 2),
        MessageEnded(LOOK, "toolUse"),
        UsageReported(LOOK, 2, 1, 30, 6, 0.75),
        ToolStarted(LOOK, "call_2_1", "submit_result", "succeeded"),
        ToolEnded(LOOK, "call_2_1", "submit_result", is_error=False),
        UsageReported(LOOK, 2, 2, 30, 6, 0.75),
    ]
    assert [said.role for said in studio.transcript()] == [
        "user",
        "assistant",
        "tool read",
        "assistant",
        "tool submit_result",
    ]


async def test_the_model_sees_the_conversation_grow(tmp_path: Path) -> None:
    studio = open_studio(tmp_path, Kind.WRITER)
    (studio.root / "a.txt").write_text("hello\n")
    thought = [ThinkingPiece("hm"), TextPiece("I look."), *calls(READ)]
    model = PieceModel([thought, submits()])
    await studio.run(model, "Begin.")
    assert model.asked == [
        (UserMessage("Begin."),),
        (
            UserMessage("Begin."),
            AssistantMessage("I look.", (READ,), (Thought("hm"),)),
            ToolMessage("a", "read", "hello"),
        ),
    ]
    tools = ("read", "bash", "edit", "write", "submit_result")
    assert {shown for _, shown in model.shown} == {tools}


async def test_a_refused_result_teaches_and_the_next_one_counts(tmp_path: Path) -> None:
    studio = open_studio(tmp_path, Kind.WRITER)
    model = PieceModel([submits(blockers=["x"]), submits(changedFiles=["/a"]), submits()])
    assert await studio.run(model) == Submitted(DONE, Spent(3, 3, Usage(), refused_calls=2))
    first, second = model.answers_of_tools
    assert first.is_error
    assert first.text == (
        "not accepted; mend this and call it again:\n"
        "- blockers: a succeeded result has none; remove them or choose another status"
    )
    assert second.text.endswith(
        '- changedFiles[0]: "/a" is absolute; write it relative to the repository\'s root'
    )


async def test_after_the_first_accepted_result_nothing_is_carried_out(tmp_path: Path) -> None:
    studio = open_studio(tmp_path, Kind.WRITER)
    studio.ownership = ("a.txt",)
    hand_in = ToolCall("s", "submit_result", result())
    write = ToolCall("w", "write", {"path": "a.txt", "content": "x"})
    again = ToolCall("t", "submit_result", result(summary="another"))
    outcome = await studio.run(PieceModel([calls(hand_in, write, again)]))
    assert outcome == Submitted(DONE, Spent(1, 1, Usage()))
    assert list(studio.root.iterdir()) == []
    assert [said.text for said in studio.transcript()[-2:]] == [
        "not carried out: your result was accepted, and with it your work is done"
    ] * 2


async def test_calls_of_one_answer_are_carried_out_in_order(tmp_path: Path) -> None:
    studio = open_studio(tmp_path, Kind.WRITER)
    studio.ownership = ("a.txt",)
    write = ToolCall("w", "write", {"path": "a.txt", "content": "one\n"})
    edit = ToolCall("e", "edit", {"path": "a.txt", "edits": [{"oldText": "one", "newText": "two"}]})
    model = PieceModel([calls(write, edit, READ), submits(changedFiles=["a.txt"])])
    assert isinstance(await studio.run(model), Submitted)
    assert model.answers_of_tools[-1] == ToolMessage("a", "read", "two")


async def test_output_of_a_command_is_noted_with_the_call_that_it_belongs_to(
    tmp_path: Path,
) -> None:
    studio = open_studio(tmp_path, Kind.WRITER)
    model = PieceModel([calls(ToolCall("b", "bash", {"command": "echo so"})), submits()])
    await studio.run(model)
    noted = [each for each in studio.notes if getattr(each, "call", None) == "b"]
    assert noted == [
        ToolStarted(LOOK, "b", "bash", "echo so"),
        ToolUpdated(LOOK, "b", "bash", "so\n"),
        ToolEnded(LOOK, "b", "bash", is_error=False),
    ]


async def test_thoughts_are_handed_back_as_their_provider_signed_them(tmp_path: Path) -> None:
    studio = open_studio(tmp_path, Kind.WRITER)
    thinks: list[AnswerPiece] = [
        ThinkingPiece("first"),
        ThoughtEnded("signed"),
        ThoughtEnded("sealed", is_redacted=True),
        ThinkingPiece("open"),
        *calls(READ),
    ]
    model = PieceModel([thinks, submits()])
    await studio.run(model)
    said = model.asked[1][1]
    assert isinstance(said, AssistantMessage)
    assert said.thoughts == (
        Thought("first", "signed"),
        Thought("", "sealed", is_redacted=True),
        Thought("open"),
    )
    content = json.loads(studio.transcript_path.read_text().splitlines()[5])["message"]["content"]
    assert content[:3] == [
        {"type": "thinking", "thinking": "first", "thinkingSignature": "signed"},
        {"type": "thinking", "thinking": "", "thinkingSignature": "sealed", "redacted": True},
        {"type": "thinking", "thinking": "open"},
    ]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (ToolCall("a", "nosuch", {}), 'the tool "nosuch" is not yours to call'),
        (ToolCall("a", "bash", {"command": "ls"}), 'the tool "bash" is not yours to call'),
        (ToolCall("a", "read", {}), "path"),
        (ToolCall("a", "read", {"path": 5}), "path"),
        (ToolCall("a", "read", {"path": float("inf")}), "the arguments are not JSON"),
        (ToolCall("a", "read", {}, "broken JSON at 7"), "read: broken JSON at 7"),
        (ToolCall("a", "re\x1b[2Jad", {}), "re__2Jad: there is no tool of that name"),
        (ToolCall("a", "submit_result", {"status": "succeeded"}), "summary is missing"),
        (ToolCall("a", "submit_result", {"status": "\ud800"}), "not accepted"),
    ],
)
async def test_a_bad_call_goes_back_to_the_model_as_an_error(
    tmp_path: Path, call: ToolCall, text: str
) -> None:
    studio = open_studio(tmp_path)
    model = PieceModel([calls(call), submits(brief="b")])
    assert isinstance(await studio.run(model), Submitted)
    (answer,) = model.answers_of_tools
    assert answer.is_error
    assert text in answer.text
    ended = [note for note in studio.notes if isinstance(note, ToolEnded)]
    assert [note.is_error for note in ended] == [True, False]


async def test_an_agent_that_stops_is_reminded_once(tmp_path: Path) -> None:
    studio = open_studio(tmp_path, Kind.WRITER)
    model = PieceModel([SAY, submits()])
    assert await studio.run(model) == Submitted(DONE, Spent(2, 1, Usage()))
    assert model.asked[1][-1] == UserMessage(REMINDER)


async def test_an_agent_that_stops_again_has_no_result(tmp_path: Path) -> None:
    studio = open_studio(tmp_path)
    model = PieceModel([calls(READ), SAY, calls(READ), SAY, submits(brief="b")])
    assert await studio.run(model) == NoResult(Spent(4, 2, Usage(), refused_calls=2))
    reminders = [message for message in model.asked[-1] if message == UserMessage(REMINDER)]
    assert len(reminders) == 1


@pytest.mark.parametrize(
    "call",
    [
        ToolCall("a", "submit_result", {"status": "succeeded"}),
        ToolCall("a", "submit_result", {}, "summary is missing"),
    ],
    ids=["does not hold", "cannot be read"],
)
async def test_an_agent_without_a_result_says_why_its_last_one_was_refused(
    tmp_path: Path, call: ToolCall
) -> None:
    outcome = await open_studio(tmp_path).run(PieceModel([calls(call), SAY, SAY]))
    assert isinstance(outcome, NoResult)
    assert "summary is missing" in outcome.refused


async def test_an_answer_that_was_cut_off_is_no_wish_to_stop(tmp_path: Path) -> None:
    studio = open_studio(tmp_path, Kind.WRITER)
    cut: list[AnswerPiece] = [TextPiece("And then"), AnswerEnded(StopReason.LENGTH)]
    model = PieceModel([cut, SAY, submits()])
    assert isinstance(await studio.run(model), Submitted)
    said = [each.text for each in model.asked[2] if isinstance(each, UserMessage)]
    assert said[1].startswith("Your answer was cut off because it grew too long")
    assert said[2] == REMINDER


async def test_answers_that_are_cut_off_in_a_row_are_reminded_and_end(tmp_path: Path) -> None:
    studio = open_studio(tmp_path, Kind.WRITER)
    cut: list[AnswerPiece] = [TextPiece("And then"), AnswerEnded(StopReason.LENGTH)]
    assert await studio.run(PieceModel([cut] * 9)) == NoResult(Spent(3, 0, Usage()))


async def test_without_a_turn_left_there_is_no_reminder(tmp_path: Path) -> None:
    studio = open_studio(tmp_path, max_turns=1)
    model = PieceModel([SAY, submits(brief="b")])
    assert await studio.run(model) == NoResult(Spent(1, 0, Usage()))
    assert len(model.asked) == 1


async def test_a_script_without_turns_has_no_result(tmp_path: Path) -> None:
    script = read_script(ROOT / "fixtures" / "scripts" / "troubles.yaml")
    outcome = await open_studio(tmp_path).play(script, "says-nothing")
    assert outcome == NoResult(Spent(2, 0, Usage()))


async def test_one_turn_more_than_allowed_is_never_asked_for(tmp_path: Path) -> None:
    studio = open_studio(tmp_path, max_turns=2)
    model = PieceModel([calls(READ)] * 3)
    assert await studio.run(model) == BudgetExceeded(
        BudgetKind.TURNS,
        "turn budget: all are used up, 2 of 2 (limits.maxTurns)",
        Spent(2, 2, Usage(), refused_calls=2),
    )
    assert len(model.asked) == 2


async def test_submitting_in_the_last_turn_is_fine(tmp_path: Path) -> None:
    studio = open_studio(tmp_path, Kind.WRITER, max_turns=2)
    outcome = await studio.run(PieceModel([calls(READ), submits()]))
    assert outcome == Submitted(DONE, Spent(2, 2, Usage(), refused_calls=1))


async def test_one_call_more_than_allowed_is_not_carried_out(tmp_path: Path) -> None:
    studio = open_studio(tmp_path, Kind.WRITER, max_tool_calls=1)
    model = PieceModel([calls(READ), submits()])
    assert await studio.run(model) == BudgetExceeded(
        BudgetKind.TOOL_CALLS,
        "tool-call budget: all are used up, 1 of 1 (limits.maxToolCalls)",
        Spent(2, 1, Usage(), refused_calls=1),
    )


async def test_spending_more_than_is_left_ends_the_agent(tmp_path: Path) -> None:
    studio = open_studio(tmp_path, cost_usd=1.0)
    dear: list[AnswerPiece] = [
        *calls(READ)[:-1],
        AnswerEnded(StopReason.TOOL_USE, Usage(cost_usd=0.4)),
    ]
    outcome = await studio.run(PieceModel([dear] * 9))
    assert isinstance(outcome, BudgetExceeded)
    assert outcome.which is BudgetKind.COST
    assert outcome.spent.usage.cost_usd == pytest.approx(1.2)
    assert (outcome.spent.turns, outcome.spent.tool_calls) == (3, 2)


async def test_spending_exactly_what_is_left_is_fine(tmp_path: Path) -> None:
    studio = open_studio(tmp_path, Kind.WRITER, cost_usd=1.0)
    all_of_it: list[AnswerPiece] = [
        *submits()[:-1],
        AnswerEnded(StopReason.TOOL_USE, Usage(cost_usd=1.0)),
    ]
    assert isinstance(await studio.run(PieceModel([all_of_it])), Submitted)


async def test_troubles_that_pass_are_waited_out_within_one_turn(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    studio = open_studio(tmp_path)
    before = trio.current_time()
    script = read_script(ROOT / "fixtures" / "scripts" / "troubles.yaml")
    outcome = await studio.play(script, "recovers")
    assert isinstance(outcome, Submitted)
    assert (outcome.spent.turns, outcome.submission.summary) == (1, "Three troubles passed.")
    waits = [note.wait_s for note in studio.notes if isinstance(note, ModelThrottled)]
    assert len(waits) == 2
    assert trio.current_time() - before > sum(waits) > 0
    ends = [note.stop_reason for note in studio.notes if isinstance(note, MessageEnded)]
    assert ends == ["error", "error", "error", "toolUse"]


async def test_a_broken_answer_is_not_part_of_the_next_request(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    studio = open_studio(tmp_path, Kind.WRITER)
    half = [TextPiece("half"), *calls(READ)[:-1], AnswerFailed(Trouble.DISCONNECT, "reset")]
    model = PieceModel([half, submits()])
    assert await studio.run(model) == Submitted(DONE, Spent(1, 1, Usage()))
    assert model.asked[0] == model.asked[1] == (UserMessage("Begin."),)
    kinds = [json.loads(line)["type"] for line in studio.transcript_path.read_text().splitlines()]
    assert kinds.count("context_edit") == 1


async def test_connections_that_keep_breaking_end_the_agent_with_their_message(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    studio = open_studio(tmp_path)
    script = read_script(ROOT / "fixtures" / "scripts" / "troubles.yaml")
    assert await studio.play(script, "gives-up") == ProviderFailed(
        Trouble.DISCONNECT, "scripted disconnect", Spent(1, 0, Usage())
    )


async def test_an_unknown_price_ends_an_agent_that_has_a_limit(tmp_path: Path) -> None:
    studio = open_studio(tmp_path, cost_usd=1.0)
    unpriced: list[AnswerPiece] = [
        *calls(READ)[:-1],
        AnswerEnded(StopReason.TOOL_USE, Usage(cost_usd=None)),
    ]
    outcome = await studio.run(PieceModel([unpriced] * 2))
    assert isinstance(outcome, BudgetExceeded)
    assert outcome.message.startswith("cost limit: it is not known what the model's answers cost")
    assert outcome.spent.turns == 1


async def test_other_troubles_are_not_tried_again(tmp_path: Path) -> None:
    studio = open_studio(tmp_path)
    model = PieceModel([[AnswerFailed(Trouble.OTHER, "401: no", Usage(3, 0, 0.5))], submits()])
    assert await studio.run(model) == ProviderFailed(
        Trouble.OTHER, "401: no", Spent(1, 0, Usage(3, 0, 0.5))
    )
    assert len(model.asked) == 1


async def test_an_answer_without_an_end_counts_as_broken_off(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    studio = open_studio(tmp_path)
    outcome = await studio.run(PieceModel([[TextPiece("half")]] * DISCONNECTED_TRIES))
    assert outcome == ProviderFailed(
        Trouble.DISCONNECT, "the answer stopped without an end", Spent(1, 0, Usage())
    )


async def test_a_trouble_that_cost_too_much_is_a_matter_of_cost(tmp_path: Path) -> None:
    studio = open_studio(tmp_path, cost_usd=1.0)
    failed = [AnswerFailed(Trouble.OVERLOADED, "busy", Usage(cost_usd=2.0))]
    outcome = await studio.run(PieceModel([failed, submits(brief="b")]))
    assert isinstance(outcome, BudgetExceeded)
    assert outcome.which is BudgetKind.COST


async def test_a_hanging_answer_ends_with_the_agents_scope_and_what_was_said_is_saved(
    tmp_path: Path,
) -> None:
    studio = open_studio(tmp_path)
    script = read_script(ROOT / "fixtures" / "scripts" / "troubles.yaml")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(studio.play, script, "hangs")
        while TextDelta(AttemptId(TaskId("hangs"), 1), "Let me think") not in studio.notes:
            await wait_all_tasks_blocked(0.001)
        nursery.cancel_scope.cancel()
    assert [said.role for said in studio.transcript()] == ["user"]


async def test_a_hostile_answer_is_contained(tmp_path: Path) -> None:
    studio = open_studio(tmp_path, Kind.WRITER)
    huge = [
        TextPiece("x" * 10_000_000),
        TextPiece("\ud800"),
        *calls(
            ToolCall("", "\x00" * 10_000_000, {"a": "y" * 10_000_000}),
            ToolCall("", "read", {"path": "\ud800"}),
            ToolCall("same", "read", {"path": "z" * 1_000_000}),
            ToolCall("same", "read", {"path": "../../etc/passwd\0"}),
        ),
    ]
    model = PieceModel([huge, submits()])
    assert isinstance(await studio.run(model), Submitted)
    answers = model.answers_of_tools
    assert [answer.is_error for answer in answers] == [True] * 4
    assert len({answer.call for answer in answers}) == 4
    assert all(len(answer.text) < 2_000 for answer in answers)
    assert studio.transcript_path.stat().st_size < 3_000_000
    deltas = [note for note in studio.notes if isinstance(note, TextDelta)]
    assert max(len(note.text) for note in deltas) <= 16_384
    started = [note for note in studio.notes if isinstance(note, ToolStarted)]
    assert all(len(note.tool) <= 64 and len(note.summary) <= 120 for note in started)


async def test_an_answer_with_endless_calls_trips_the_budget(tmp_path: Path) -> None:
    studio = open_studio(tmp_path, max_tool_calls=3)
    model = PieceModel([calls(*[ToolCall("", "nosuch.tool", {})] * 12_000)])
    outcome = await studio.run(model)
    assert isinstance(outcome, BudgetExceeded)
    assert (outcome.which, outcome.spent.tool_calls) == (BudgetKind.TOOL_CALLS, 3)
    assert studio.transcript()[1].text.count("[calls nosuch_tool {}]") == 10_001


async def test_an_endless_error_is_cut(tmp_path: Path) -> None:
    studio = open_studio(tmp_path)
    model = PieceModel([[AnswerFailed(Trouble.OTHER, "\ud800" + "x" * 10_000_000)]])
    assert await studio.run(model) == ProviderFailed(
        Trouble.OTHER, "\ufffd" + "x" * 1_999, Spent(1, 0, Usage())
    )
