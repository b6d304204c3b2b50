from collections.abc import Mapping

import pytest
import trio
import trio.testing

from agents.models.port import (
    AnswerEnded,
    AnswerFailed,
    AnswerPiece,
    CallReady,
    StopReason,
    TextPiece,
    ThinkingPiece,
    ToolCall,
    Trouble,
    Usage,
)
from agents.models.scripted import ScriptedModel
from tests.support.agents import script_of


def model_of(
    text: str, task: str = "fix", attempt: int = 1, values: Mapping[str, str] | None = None
) -> ScriptedModel:
    return ScriptedModel(script_of(text), "scripts/x.yaml", task, attempt, values or {})


async def answer_of(model: ScriptedModel) -> list[AnswerPiece]:
    async with model.stream("", (), ()) as pieces:
        return [piece async for piece in pieces]


def test_the_model_is_named_after_its_script() -> None:
    model = model_of("fix: []")
    assert (model.provider, model.id) == ("scripted", "scripts/x.yaml")


async def test_turns_come_in_order_and_then_nothing() -> None:
    model = model_of("""\
        fix:
          - thinking: hm
            text: hello
            calls: [{tool: ls, arguments: {path: .}}, {tool: ls}]
            usage: {input: 7, output: 3, costUsd: 0.5}
          - text: bye
    """)
    assert await answer_of(model) == [
        ThinkingPiece("hm"),
        TextPiece("hello"),
        CallReady(ToolCall("call_1_1", "ls", {"path": "."})),
        CallReady(ToolCall("call_1_2", "ls", {})),
        AnswerEnded(StopReason.TOOL_USE, Usage(7, 3, 0.5)),
    ]
    assert await answer_of(model) == [TextPiece("bye"), AnswerEnded(StopReason.STOP, Usage())]
    assert await answer_of(model) == [AnswerEnded(StopReason.STOP, Usage())]


async def test_references_are_filled_in_wherever_text_stands() -> None:
    model = model_of(
        """\
        "*":
          - text: "${task} in ${workspace}, not ${HOME}, $${task} or ${Task}"
            calls:
              - tool: x
                arguments: {a: ["${fingerprint}", {b: "<${task}>"}], "${task}": 1, n: 2}
        """,
        values={"workspace": "/w", "fingerprint": "abc"},
    )
    assert await answer_of(model) == [
        TextPiece("fix in /w, not ${HOME}, ${task} or ${Task}"),
        CallReady(ToolCall("call_1_1", "x", {"a": ["abc", {"b": "<fix>"}], "${task}": 1, "n": 2})),
        AnswerEnded(StopReason.TOOL_USE, Usage()),
    ]


async def test_what_a_reference_stands_for_is_not_looked_at_again() -> None:
    model = model_of("fix: [{text: '${workspace}'}]", values={"workspace": "/${task}"})
    assert (await answer_of(model))[0] == TextPiece("/${task}")


async def test_a_reference_without_a_meaning_fails_the_answer_and_says_which() -> None:
    model = model_of("fix: [{text: 'a', calls: [{tool: x, arguments: {f: '${fingerprint}'}}]}]")
    assert await answer_of(model) == [
        AnswerFailed(
            Trouble.OTHER, "the script refers to ${fingerprint}, which this task does not have"
        )
    ]


async def test_an_error_comes_after_the_text_and_uses_the_turn_up() -> None:
    model = model_of("fix: [{text: half, error: disconnect, usage: {input: 4}}, {text: whole}]")
    assert await answer_of(model) == [
        TextPiece("half"),
        AnswerFailed(Trouble.DISCONNECT, "scripted disconnect", Usage(4, 0, 0.0)),
    ]
    assert (await answer_of(model))[0] == TextPiece("whole")


async def test_a_second_attempt_has_turns_of_its_own() -> None:
    text = "fix: [{text: first}]\nfix@2: [{text: second}]"
    assert (await answer_of(model_of(text, attempt=2)))[0] == TextPiece("second")
    assert (await answer_of(model_of(text, attempt=3)))[0] == TextPiece("first")


async def test_a_delay_holds_the_answer_back(autojump_clock: trio.testing.MockClock) -> None:
    before = trio.current_time()
    await answer_of(model_of("fix: [{text: slow, delayMs: 1500}]"))
    assert trio.current_time() - before == pytest.approx(1.5)


async def test_a_hanging_answer_speaks_and_ends_only_when_cancelled(
    autojump_clock: trio.testing.MockClock,
) -> None:
    heard: list[AnswerPiece] = []
    model = model_of("fix: [{text: I think, hang: true}, {text: next}]")
    with trio.move_on_after(10_000) as scope:
        async with model.stream("", (), ()) as pieces:
            async for piece in pieces:
                heard.append(piece)  # noqa: PERF401 - what was heard before the end is the point
    assert scope.cancelled_caught
    assert heard == [TextPiece("I think")]
    assert (await answer_of(model))[0] == TextPiece("next")
