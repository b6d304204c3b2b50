import pytest

from agents.models.catalog import ModelInfo
from agents.models.endpoint import Api
from agents.models.openai_request import build_request
from agents.models.port import (
    AssistantMessage,
    Message,
    Thought,
    ToolCall,
    ToolDeclaration,
    ToolMessage,
    UserMessage,
)
from engine.core.spec import Thinking


def info(*, reasoning: bool = False, max_output_tokens: int | None = None) -> ModelInfo:
    return ModelInfo("loop", "m1", Api.OPENAI, "http://x", None, max_output_tokens, reasoning)


def messages_of(*messages: Message) -> object:
    return build_request(info(), Thinking.OFF, "", messages, ())["messages"]


def test_a_request_asks_for_a_stream_with_its_counts_that_nobody_stores() -> None:
    schema: dict[str, object] = {"type": "object", "properties": {}}
    tools = (ToolDeclaration("ls", "lists", schema),)
    body = build_request(info(), Thinking.HIGH, "Be brief.", (UserMessage("Hello."),), tools)
    assert body == {
        "model": "m1",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hello."},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "store": False,
        "tools": [
            {
                "type": "function",
                "function": {"name": "ls", "description": "lists", "parameters": schema},
            }
        ],
    }


@pytest.mark.parametrize("thinking", [level for level in Thinking if level is not Thinking.OFF])
def test_a_model_that_reasons_is_told_how_much(thinking: Thinking) -> None:
    body = build_request(info(reasoning=True), thinking, "", (), ())
    assert body["reasoning_effort"] == thinking.value
    off = build_request(info(reasoning=True), Thinking.OFF, "", (), ())
    assert "reasoning_effort" not in off


def test_a_known_limit_is_sent_and_an_unknown_one_is_not() -> None:
    body = build_request(info(max_output_tokens=4_000), Thinking.OFF, "", (), ())
    assert body["max_completion_tokens"] == 4_000
    assert "max_completion_tokens" not in build_request(info(), Thinking.OFF, "", (), ())


def test_calls_and_their_answers_go_back_as_they_came() -> None:
    calls = (ToolCall("a", "ls", {"path": "ü"}), ToolCall("b", "ls", {}, "not JSON"))
    answered = AssistantMessage("", calls)
    assert messages_of(answered, ToolMessage("a", "ls", "x\ud800", is_error=True)) == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "a",
                    "type": "function",
                    "function": {"name": "ls", "arguments": '{"path": "\\u00fc"}'},
                },
                {"id": "b", "type": "function", "function": {"name": "ls", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "x�"},
    ]


def test_only_thoughts_of_this_protocol_go_back_and_under_their_name() -> None:
    thoughts = (
        Thought("a", "reasoning"),
        Thought("b", "reasoning"),
        Thought("c", "EqQBCgIYAhIM"),
        Thought("d"),
    )
    assert messages_of(AssistantMessage("x", (), thoughts)) == [
        {"role": "assistant", "content": "x", "reasoning": "a\nb"}
    ]


def test_an_answer_that_said_nothing_is_left_out() -> None:
    empty = AssistantMessage("", (), (Thought("a", "reasoning"),))
    assert messages_of(UserMessage("a"), empty, UserMessage("b")) == [
        {"role": "user", "content": "a"},
        {"role": "user", "content": "b"},
    ]
