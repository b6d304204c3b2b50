import json
from pathlib import Path

import pytest
from trio.testing import MockClock

from agents.compaction import SUMMARY_SYSTEM, divide, summary_message
from agents.loop import BudgetExceeded, ProviderFailed, Submitted
from agents.models.port import (
    AnswerEnded,
    AnswerFailed,
    AnswerPiece,
    AssistantMessage,
    StopReason,
    TextPiece,
    ToolCall,
    Trouble,
    Usage,
    UserMessage,
)
from engine.core.events import ContextCompacted, TextDelta, TurnStarted
from engine.core.spec import Kind
from tests.support.agents import PieceModel, Studio, calls, open_studio, submits

CONTEXT = 40_000
TOO_LONG: list[AnswerPiece] = [AnswerFailed(Trouble.CONTEXT_LENGTH, "400: too many tokens")]


def reads(number: int, tokens: int = 0, cost_usd: float = 0.0) -> list[AnswerPiece]:
    """Return an answer that reads a file; `tokens` is how long the conversation is with it."""
    call = ToolCall(f"c{number}", "read", {"path": "big.txt"})
    used = Usage(max(0, tokens - 10), 10, cost_usd)
    return [*calls(call)[:-1], AnswerEnded(StopReason.TOOL_USE, used)]


def summary(text: str = "Read it all.", cost_usd: float = 0.0) -> list[AnswerPiece]:
    return [TextPiece(text), AnswerEnded(StopReason.STOP, Usage(900, 50, cost_usd))]


def studio_with_file(tmp_path: Path, chars: int = 40_000, **budget: float) -> Studio:
    studio = open_studio(tmp_path, Kind.WRITER, **budget)
    (studio.root / "big.txt").write_text("line of text\n" * (chars // 13))
    return studio


def entries(studio: Studio) -> list[dict[str, object]]:
    return [json.loads(line) for line in studio.transcript_path.read_text().splitlines()]


async def test_a_talk_that_fills_the_context_goes_on_with_a_summary(tmp_path: Path) -> None:
    studio = studio_with_file(tmp_path)
    filled = divide(CONTEXT).fill + 1
    model = PieceModel(
        [reads(1), reads(2), reads(3, tokens=filled), summary(), submits()], context_tokens=CONTEXT
    )
    outcome = await studio.run(model)
    assert isinstance(outcome, Submitted)
    assert (outcome.spent.turns, outcome.spent.usage.input_tokens) == (4, filled - 10 + 900)
    asked = model.asked[3]
    assert len(asked) == 1
    assert isinstance(asked[0], UserMessage)
    assert "<task>\n[engine] Begin.\n</task>" in asked[0].text
    assert model.shown[3] == (SUMMARY_SYSTEM, ())
    brief, replacement, *kept = model.asked[4]
    assert (brief, replacement) == (UserMessage("Begin."), summary_message("Read it all."))
    assert isinstance(kept[0], AssistantMessage)
    assert [call.id for call in kept[0].calls] == ["c3"]
    turns = [note.turn for note in studio.notes if isinstance(note, TurnStarted)]
    assert turns == [1, 2, 3, 4]
    assert not any(isinstance(note, TextDelta) for note in studio.notes)
    assert len([note for note in studio.notes if isinstance(note, ContextCompacted)]) == 1


async def test_the_session_says_from_where_on_whoever_continues_reads(tmp_path: Path) -> None:
    studio = studio_with_file(tmp_path)
    model = PieceModel(
        [reads(1), reads(2, tokens=CONTEXT), summary(), submits()], context_tokens=CONTEXT
    )
    await studio.run(model)
    written = entries(studio)
    (entry,) = [each for each in written if each["type"] == "compaction"]
    kept = next(each for each in written if each["id"] == entry["firstKeptEntryId"])
    assert isinstance(kept["message"], dict)
    assert kept["message"]["role"] == "assistant"
    assert kept["message"]["content"][0]["id"] == "c2"
    said = summary_message("Read it all.").text
    assert entry["summary"] == f"Begin.\n\n{said}"
    assert isinstance(entry["tokensBefore"], int)
    assert entry["tokensBefore"] > CONTEXT
    assert (entry["details"], entry["fromHook"]) == ({"readFiles": [], "modifiedFiles": []}, False)
    system = entry["systemMessage"]
    assert isinstance(system, dict)
    assert system == next(each for each in written if each["type"] == "message")["message"]
    after = written[written.index(entry) + 1]
    assert after["parentId"] == entry["id"]


async def test_what_was_counted_before_a_summary_does_not_count_after_it(tmp_path: Path) -> None:
    studio = studio_with_file(tmp_path)
    model = PieceModel(
        [reads(1), reads(2, tokens=CONTEXT), summary(), reads(3), submits()],
        context_tokens=CONTEXT,
    )
    assert isinstance(await studio.run(model), Submitted)
    assert [shown for shown, _ in model.shown].count(SUMMARY_SYSTEM) == 1


async def test_a_second_summary_takes_the_place_of_the_first(tmp_path: Path) -> None:
    studio = studio_with_file(tmp_path)
    model = PieceModel(
        [
            *(reads(1), reads(2, tokens=CONTEXT), summary("Read it once.")),
            *(reads(3), reads(4, tokens=CONTEXT), summary("Read it twice.")),
            submits(),
        ],
        context_tokens=CONTEXT,
    )
    assert isinstance(await studio.run(model), Submitted)
    asked = model.asked[5][0]
    assert isinstance(asked, UserMessage)
    assert "Read it once." in asked.text
    brief, replacement, *kept = model.asked[6]
    assert (brief, replacement) == (UserMessage("Begin."), summary_message("Read it twice."))
    assert [each.calls[0].id for each in kept if isinstance(each, AssistantMessage)] == ["c4"]
    written = entries(studio)
    last = [each for each in written if each["type"] == "compaction"][-1]
    kept_entry = next(each for each in written if each["id"] == last["firstKeptEntryId"])
    assert isinstance(kept_entry["message"], dict)
    assert kept_entry["message"]["content"][0]["id"] == "c4"


async def test_without_counts_of_the_provider_lengths_are_guessed(tmp_path: Path) -> None:
    studio = studio_with_file(tmp_path)
    answers = [reads(number) for number in range(4)]
    model = PieceModel([*answers, summary(), submits()], context_tokens=32_000)
    assert isinstance(await studio.run(model), Submitted)
    assert model.shown[4] == (SUMMARY_SYSTEM, ())


@pytest.mark.parametrize("context", [None, 10_000_000])
async def test_a_provider_that_finds_the_talk_too_long_gets_a_shorter_one(
    tmp_path: Path, context: int | None
) -> None:
    studio = studio_with_file(tmp_path)
    answers = [reads(number) for number in range(8)]
    model = PieceModel([*answers, TOO_LONG, summary(), submits()], context_tokens=context)
    outcome = await studio.run(model)
    assert isinstance(outcome, Submitted)
    assert outcome.spent.turns == 9
    assert len(model.asked[-1]) < len(model.asked[8])


async def test_a_talk_that_stays_too_long_fails_saying_so(tmp_path: Path) -> None:
    studio = studio_with_file(tmp_path)
    model = PieceModel(
        [reads(1), reads(2, tokens=CONTEXT), summary(), TOO_LONG, summary(), submits()],
        context_tokens=CONTEXT,
    )
    outcome = await studio.run(model)
    assert isinstance(outcome, ProviderFailed)
    assert outcome.message == (
        "the model's context of 40,000 tokens is full and the conversation cannot be shortened"
        " further: split the task, or choose a model with a larger context"
    )
    assert len(model.asked) == 4


async def test_a_brief_that_is_too_long_fails_saying_so(tmp_path: Path) -> None:
    studio = open_studio(tmp_path, Kind.WRITER)
    outcome = await studio.run(PieceModel([TOO_LONG]), "x" * 1_000_000)
    assert isinstance(outcome, ProviderFailed)
    assert outcome.message.startswith("the model's context is full")


async def test_what_seems_too_long_but_cannot_be_cut_is_sent_all_the_same(tmp_path: Path) -> None:
    studio = open_studio(tmp_path, Kind.WRITER)
    model = PieceModel([submits()], context_tokens=1_000)
    assert isinstance(await studio.run(model, "x" * 100_000), Submitted)


async def test_a_summary_is_waited_for_like_any_answer(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    studio = studio_with_file(tmp_path)
    busy: list[AnswerPiece] = [AnswerFailed(Trouble.OVERLOADED, "busy")]
    model = PieceModel(
        [reads(1), reads(2, tokens=CONTEXT), busy, summary(), submits()], context_tokens=CONTEXT
    )
    assert isinstance(await studio.run(model), Submitted)


@pytest.mark.parametrize(
    ("answer", "trouble"),
    [
        ([AnswerFailed(Trouble.AUTHENTICATION, "401")], Trouble.AUTHENTICATION),
        (summary("  \n"), None),
    ],
    ids=["refused", "empty"],
)
async def test_a_summary_that_fails(
    tmp_path: Path, answer: list[AnswerPiece], trouble: Trouble | None
) -> None:
    studio = studio_with_file(tmp_path)
    model = PieceModel(
        [reads(1), reads(2, tokens=CONTEXT), answer, submits()], context_tokens=CONTEXT
    )
    outcome = await studio.run(model)
    if trouble is None:  # the talk was only about to be too long, so it is tried as it is
        assert isinstance(outcome, Submitted)
    else:
        assert isinstance(outcome, ProviderFailed)
        assert outcome.trouble is trouble


async def test_a_summary_counts_towards_the_cost(tmp_path: Path) -> None:
    studio = studio_with_file(tmp_path, cost_usd=1.0)
    model = PieceModel(
        [reads(1), reads(2, tokens=CONTEXT), summary(cost_usd=1.5), submits()],
        context_tokens=CONTEXT,
    )
    outcome = await studio.run(model)
    assert isinstance(outcome, BudgetExceeded)
    assert len(model.asked) == 3
