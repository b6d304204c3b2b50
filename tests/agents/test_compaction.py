import pytest
from hypothesis import given, strategies as st

from agents.compaction import (
    Room,
    divide,
    divide_unknown,
    find_cut,
    guess_prompt_tokens,
    guess_tokens,
    measured_tokens,
    summary_message,
    summary_request,
)
from agents.models.port import (
    AssistantMessage,
    Message,
    Thought,
    ToolCall,
    ToolDeclaration,
    ToolMessage,
    Usage,
    UserMessage,
)

BRIEF = UserMessage("Mend the lamp.")


def turn(number: int, chars: int = 400) -> list[Message]:
    call = ToolCall(f"c{number}", "read", {"path": f"{number}.txt"})
    answer = ToolMessage(call.id, "read", "x" * chars)
    return [AssistantMessage(f"turn {number}", (call,)), answer]


def talk(*turns: list[Message]) -> list[Message]:
    return [BRIEF, *(message for each in turns for message in each)]


@pytest.mark.parametrize(
    ("context", "room"),
    [
        (200_000, Room(fill=183_616, kept=20_000, summarised=91_808)),
        (32_000, Room(fill=24_000, kept=8_000, summarised=12_000)),
        (400, Room(fill=300, kept=100, summarised=150)),
    ],
)
def test_a_context_keeps_room_for_the_answer_and_for_recent_turns(context: int, room: Room) -> None:
    assert divide(context) == room


def test_a_context_of_unknown_size_is_taken_for_half_of_what_did_not_fit() -> None:
    assert divide_unknown(64_000) == divide(32_000)
    assert divide_unknown(0) == divide(1)


def test_lengths_are_guessed_from_all_that_is_sent() -> None:
    call = ToolCall("c", "read", {"path": "a"})
    said = AssistantMessage("x" * 400, (call,), (Thought("y" * 200, "z" * 200),))
    assert guess_tokens([UserMessage("x" * 40)]) == 10
    assert guess_tokens([said]) == (400 + 400 + len("read") + len('{"path": "a"}')) // 4
    assert guess_tokens([ToolMessage("c", "read", "x" * 36)]) == 10
    tool = ToolDeclaration("read", "Reads.", {"type": "object"})
    assert guess_prompt_tokens("x" * 400, (tool,)) == (400 + 4 + 6 + len('{"type": "object"}')) // 4


def test_a_provider_that_counts_nothing_has_measured_nothing() -> None:
    assert measured_tokens(Usage(700, 30)) == 730
    assert measured_tokens(Usage()) is None


def test_the_most_recent_turns_stay_as_far_as_there_is_room() -> None:
    messages = talk(*(turn(number) for number in range(6)))
    assert find_cut(messages, kept_tokens=250) == 9
    assert find_cut(messages, kept_tokens=400) == 7
    assert isinstance(messages[7], AssistantMessage)


def test_the_last_turn_stays_even_if_it_is_too_long() -> None:
    messages = talk(turn(0), turn(1), turn(2, chars=1_000_000))
    assert find_cut(messages, kept_tokens=10) == 5


@pytest.mark.parametrize(
    ("messages", "kept_tokens"),
    [
        ([BRIEF], 0),
        (talk(turn(0)), 0),
        (talk(turn(0), turn(1))[:3], 0),
        ([BRIEF, summary_message("older"), *turn(1)], 0),
        (talk(turn(0), turn(1)), 10_000),
    ],
    ids=["brief alone", "one turn", "no answer yet", "a summary and a turn", "all has room"],
)
def test_there_is_nothing_to_cut(messages: list[Message], kept_tokens: int) -> None:
    assert find_cut(messages, kept_tokens) is None


@given(
    answers=st.lists(st.lists(st.integers(0, 4_000), max_size=3), max_size=12),
    kept_tokens=st.integers(0, 3_000),
)
def test_no_cut_parts_a_call_from_its_answer(answers: list[list[int]], kept_tokens: int) -> None:
    messages: list[Message] = [BRIEF]
    for number, sizes in enumerate(answers):
        calls = tuple(ToolCall(f"{number}-{at}", "read", {}) for at in range(len(sizes)))
        messages.append(AssistantMessage("", calls))
        messages += [
            ToolMessage(call.id, "read", "x" * size)
            for call, size in zip(calls, sizes, strict=True)
        ]
    cut = find_cut(messages, kept_tokens)
    if cut is None:
        return
    kept = messages[cut:]
    called = {call.id for each in kept if isinstance(each, AssistantMessage) for call in each.calls}
    assert {each.call for each in kept if isinstance(each, ToolMessage)} == called
    assert 2 < cut < len(messages)


def test_what_is_summarised_is_quoted_and_bounded() -> None:
    room = Room(fill=4_000, kept=1_000, summarised=2_000)
    failed = ToolMessage("c", "bash", "no such file", is_error=True)
    messages = [*talk(turn(0, chars=9_000)), failed, UserMessage("Look again.")]
    text = summary_request(messages, room).text
    assert text.startswith("<task>\n[engine] Mend the lamp.\n</task>")
    assert '[agent] turn 0\n[calls read] {"path": "0.txt"}' in text
    assert "[... 7040 characters ...]" in text
    assert "[bash failed] no such file\n\n[engine] Look again.\n</conversation>" in text
    long = summary_request([UserMessage("b" * 90_000), *messages[1:] * 30], room).text
    assert len(long) < 4 * room.summarised + 200
