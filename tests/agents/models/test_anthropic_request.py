"""Requests to Anthropic's Messages API."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from agents.models.anthropic_request import ANSWER_TOKENS, BUDGET_TOKENS, build_request
from agents.models.catalog import ModelInfo
from agents.models.endpoint import Api
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

CACHED = {"cache_control": {"type": "ephemeral"}}
HELLO = UserMessage("hello")


def info(id_: str = "claude-sonnet-4-5", **fields: Any) -> ModelInfo:
    return ModelInfo("anthropic", id_, Api.ANTHROPIC, "https://api.anthropic.com", **fields)


def request(
    *messages: Message,
    model: ModelInfo | None = None,
    thinking: Thinking = Thinking.OFF,
    system: str = "",
    tools: Sequence[ToolDeclaration] = (),
) -> dict[str, Any]:
    body = build_request(model or info(), thinking, system, messages or (HELLO,), tools)
    plain: dict[str, Any] = json.loads(json.dumps(body))
    return plain


def contents(*messages: Message) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the messages of a request, marks for the cache removed."""
    turns = request(*messages)["messages"]
    for turn in turns:
        for block in turn["content"]:
            block.pop("cache_control", None)
    return [(turn["role"], turn["content"]) for turn in turns]


def test_it_asks_for_a_stream_of_a_model_s_answer() -> None:
    body = request(system="be brief")
    assert body == {
        "model": "claude-sonnet-4-5",
        "max_tokens": 32_000,
        "stream": True,
        "system": [{"type": "text", "text": "be brief", **CACHED}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hello", **CACHED}]}],
    }


def test_the_prompt_the_last_tool_and_the_newest_message_are_marked_for_the_cache() -> None:
    tools = [ToolDeclaration(name, "does it", {"type": "object"}) for name in ("read", "grep")]
    call = ToolCall("c1", "read", {"path": "a"})
    body = request(
        HELLO, AssistantMessage("", (call,)), ToolMessage("c1", "read", "text"), tools=tools
    )
    first, last = body["tools"]
    assert first == {
        "name": "read",
        "description": "does it",
        "input_schema": {"type": "object"},
    }
    assert last["cache_control"] == {"type": "ephemeral"}
    marks = [block.get("cache_control") for turn in body["messages"] for block in turn["content"]]
    assert marks == [None, None, {"type": "ephemeral"}]


def test_all_results_of_an_answer_s_calls_stand_in_one_message() -> None:
    calls = (ToolCall("c1", "read", {"path": "a"}), ToolCall("c2", "bash", {}))
    said = contents(
        HELLO,
        AssistantMessage("I look", calls),
        ToolMessage("c1", "read", "text"),
        ToolMessage("c2", "bash", "no such file", is_error=True),
        UserMessage("hurry"),
    )
    assert [role for role, _ in said] == ["user", "assistant", "user"]
    assert said[1][1] == [
        {"type": "text", "text": "I look"},
        {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a"}},
        {"type": "tool_use", "id": "c2", "name": "bash", "input": {}},
    ]
    assert said[2][1] == [
        {"type": "tool_result", "tool_use_id": "c1", "content": "text", "is_error": False},
        {
            "type": "tool_result",
            "tool_use_id": "c2",
            "content": "no such file",
            "is_error": True,
        },
        {"type": "text", "text": "hurry"},
    ]


def test_an_empty_output_is_named_since_the_api_takes_no_blank_text() -> None:
    call = ToolCall("c1", "bash", {})
    said = contents(HELLO, AssistantMessage(" \n", (call,)), ToolMessage("c1", "bash", "\n"))
    assert [block["type"] for block in said[1][1]] == ["tool_use"]
    assert said[2][1][0]["content"] == "(no output)"


def test_an_empty_answer_is_left_out_and_its_neighbours_become_one() -> None:
    thought = Thought("hm", "signed")
    said = contents(HELLO, AssistantMessage("", (), (thought,)), UserMessage("go on"))
    assert said == [
        ("user", [{"type": "text", "text": "hello"}, {"type": "text", "text": "go on"}])
    ]


def test_thoughts_go_back_as_they_came_before_what_was_said() -> None:
    thoughts = (Thought("hm", "sig1"), Thought("", "hidden", is_redacted=True), Thought("unsigned"))
    said = contents(HELLO, AssistantMessage("done", (), thoughts), UserMessage("more"))
    assert said[1] == (
        "assistant",
        [
            {"type": "thinking", "thinking": "hm", "signature": "sig1"},
            {"type": "redacted_thinking", "data": "hidden"},
            {"type": "text", "text": "done"},
        ],
    )


def test_a_conversation_that_ends_with_an_answer_marks_nothing_of_it() -> None:
    body = request(HELLO, AssistantMessage("done"))
    assert "cache_control" not in json.dumps(body["messages"])


@pytest.mark.parametrize("level", [level for level in Thinking if level is not Thinking.OFF])
def test_each_level_has_a_budget_where_a_model_takes_one(level: Thinking) -> None:
    body = request(model=info(max_output_tokens=128_000), thinking=level)
    assert body["max_tokens"] == 128_000
    assert body["thinking"] == {"type": "enabled", "budget_tokens": BUDGET_TOKENS[level]}


def test_a_budget_leaves_room_for_the_answer() -> None:
    body = request(model=info(max_output_tokens=16_384), thinking=Thinking.MAX)
    assert body["thinking"]["budget_tokens"] == 16_384 - ANSWER_TOKENS


@pytest.mark.parametrize(
    ("model", "level"),
    [
        (info(), Thinking.OFF),
        (info(reasoning=False), Thinking.HIGH),
        (info(max_output_tokens=5_000), Thinking.HIGH),
        (info("claude-3-5-sonnet-20241022"), Thinking.HIGH),
    ],
    ids=["off", "cannot think", "no room", "too old"],
)
def test_a_model_that_shall_or_can_not_think_is_not_asked_to(
    model: ModelInfo, level: Thinking
) -> None:
    assert "thinking" not in request(model=model, thinking=level)


@pytest.mark.parametrize(
    ("id_", "level", "effort"),
    [
        ("claude-opus-4-6", Thinking.MINIMAL, "low"),
        ("claude-sonnet-4-6", Thinking.XHIGH, "high"),
        ("claude-opus-4-7", Thinking.XHIGH, "xhigh"),
        ("us.anthropic.claude-opus-5-20300101", Thinking.MAX, "max"),
        ("claude-mythos-preview", Thinking.MEDIUM, "medium"),
    ],
)
def test_newer_models_are_given_an_effort(id_: str, level: Thinking, effort: str) -> None:
    body = request(model=info(id_), thinking=level)
    assert body["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert body["output_config"] == {"effort": effort}


@pytest.mark.parametrize(
    ("id_", "tokens"),
    [
        ("claude-3-haiku-20240307", 4_096),
        ("claude-3-5-haiku-latest", 8_192),
        ("claude-3-7-sonnet-20250219", 32_000),
        ("claude-sonnet-4-20250514", 32_000),
        ("claude-mythos-preview", 32_000),
        ("another-model", 16_384),
    ],
)
def test_an_answer_may_be_as_long_as_its_model_can(id_: str, tokens: int) -> None:
    assert request(model=info(id_))["max_tokens"] == tokens


def test_another_model_behind_this_api_thinks_by_budget() -> None:
    body = request(model=info("kimi-k9"), thinking=Thinking.LOW)
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 4_096}


def test_halves_of_characters_are_replaced_wherever_they_stand() -> None:
    half = "a\ud83d"
    call = ToolCall("c1", "write", {"content": half, half: [half]})
    said = (UserMessage(half), AssistantMessage(half, (call,), (Thought(half, "sig"),)))
    body = request(*said, ToolMessage("c1", "write", half), system=half)
    text = json.dumps(body, ensure_ascii=False)
    assert text.encode().decode() == text
    assert text.count("a\ufffd") == 8
