"""Puts a conversation into the form of Anthropic's Messages API.

Source: Anthropic's API reference, "Messages", "Extended thinking", "Adaptive thinking" and "Prompt
caching".
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import assert_never

from agents.models.catalog import DEFAULT_OUTPUT_TOKENS, ModelInfo
from agents.models.characters import whole_characters
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

Block = Mapping[str, object]

# Tokens that a model may think for at each level, where it takes a budget.
BUDGET_TOKENS: Mapping[Thinking, int] = {
    Thinking.MINIMAL: 1_024,
    Thinking.LOW: 4_096,
    Thinking.MEDIUM: 8_192,
    Thinking.HIGH: 16_384,
    Thinking.XHIGH: 32_768,
    Thinking.MAX: 65_536,
}
# What is kept of the longest answer for what comes after the thoughts.
ANSWER_TOKENS = 4_096
LEAST_BUDGET_TOKENS = 1_024
# The word for each level, where a model decides by itself how much to think.
EFFORTS: Mapping[Thinking, str] = {
    Thinking.MINIMAL: "low",
    Thinking.LOW: "low",
    Thinking.MEDIUM: "medium",
    Thinking.HIGH: "high",
    Thinking.XHIGH: "xhigh",
    Thinking.MAX: "max",
}
_FIRST_THINKING, _FIRST_ADAPTIVE, _FIRST_XHIGH = (3, 7), (4, 6), (4, 7)
_VERSION = re.compile(r"claude-(?:[a-z]+-)?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")
_NEWEST = (99, 0)
# The longest answers of the versions up to the one named.
_OUTPUT_TOKENS = (((3, 4), 4_096), ((3, 6), 8_192), (_NEWEST, 32_000))
_CACHED: Block = {"cache_control": {"type": "ephemeral"}}
_NO_OUTPUT = "(no output)"


def build_request(
    info: ModelInfo,
    thinking: Thinking,
    system: str,
    messages: Sequence[Message],
    tools: Sequence[ToolDeclaration],
) -> dict[str, object]:
    """Return the body of a request for the next answer, as a stream.

    Three places are marked for the provider's cache: the system prompt, the tools, and the newest
    message, so that the next request finds everything up to it there.
    """
    version = _version(info.id)
    limit = info.max_output_tokens or _output_tokens(version)
    body: dict[str, object] = {
        "model": info.id,
        "max_tokens": limit,
        "stream": True,
        "messages": _mark_newest(_turns(messages)),
        **_thinking(info, thinking, version, limit),
    }
    if system.strip():
        body["system"] = [{"type": "text", "text": whole_characters(system), **_CACHED}]
    if tools:
        declared = [_tool(each) for each in tools]
        body["tools"] = [*declared[:-1], {**declared[-1], **_CACHED}]
    return body


def _version(id_: str) -> tuple[int, int] | None:
    """Return the version in the name of a Claude; None for other models, which it may serve too."""
    if found := _VERSION.search(id_):
        return int(found[1]), int(found[2] or 0)
    return _NEWEST if "claude-" in id_ else None


def _output_tokens(version: tuple[int, int] | None) -> int:
    if version is None:
        return DEFAULT_OUTPUT_TOKENS
    return next(tokens for last, tokens in _OUTPUT_TOKENS if version <= last)


def _thinking(
    info: ModelInfo, level: Thinking, version: tuple[int, int] | None, limit: int
) -> Block:
    """Return the part of a request that asks a model to think; empty when it shall not.

    Claude 4.6 and later decide by themselves how much, given an effort; before them, and for
    other models, a number of tokens is the measure.
    """
    if level is Thinking.OFF or not info.reasoning:
        return {}
    if version is not None and version < _FIRST_THINKING:
        return {}
    if version is not None and version >= _FIRST_ADAPTIVE:
        is_too_old = level is Thinking.XHIGH and version < _FIRST_XHIGH
        effort = EFFORTS[Thinking.HIGH if is_too_old else level]
        shown = {"type": "adaptive", "display": "summarized"}
        return {"thinking": shown, "output_config": {"effort": effort}}
    budget = min(BUDGET_TOKENS[level], limit - ANSWER_TOKENS)
    if budget < LEAST_BUDGET_TOKENS:
        return {}
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def _turns(messages: Sequence[Message]) -> list[tuple[str, list[Block]]]:
    """Return who says what in turn: neighbours of one side become one message.

    So all results of one answer's calls stand together, which the API asks for.
    """
    turns: list[tuple[str, list[Block]]] = []
    for message in messages:
        role = "assistant" if isinstance(message, AssistantMessage) else "user"
        blocks = list(_blocks(message))
        if turns and turns[-1][0] == role:
            turns[-1][1].extend(blocks)
        elif blocks:
            turns.append((role, blocks))
    return turns


def _mark_newest(turns: Sequence[tuple[str, list[Block]]]) -> list[Block]:
    newest = len(turns) - 1
    marked: list[Block] = []
    for index, (role, blocks) in enumerate(turns):
        content = blocks
        if index == newest and role == "user":
            content = [*blocks[:-1], {**blocks[-1], **_CACHED}]
        marked.append({"role": role, "content": content})
    return marked


def _blocks(message: Message) -> Iterator[Block]:
    match message:
        case UserMessage():
            yield from _text(message.text)
        case ToolMessage():
            yield {
                "type": "tool_result",
                "tool_use_id": message.call,
                "content": whole_characters(message.text) if message.text.strip() else _NO_OUTPUT,
                "is_error": message.is_error,
            }
        case AssistantMessage():
            yield from _assistant(message)
        case _:
            assert_never(message)


def _assistant(message: AssistantMessage) -> Iterator[Block]:
    said = list(_text(message.text))
    if not said and not message.calls:
        # An answer of thoughts alone is not taken back.
        return
    for thought in message.thoughts:
        yield from _thought(thought)
    yield from said
    for call in message.calls:
        yield {"type": "tool_use", "id": call.id, "name": call.name, "input": _input(call)}


def _input(call: ToolCall) -> object:
    """Return the arguments with only such text as can be sent."""
    return json.loads(whole_characters(json.dumps(call.arguments, ensure_ascii=False)))


def _thought(thought: Thought) -> Iterator[Block]:
    """Yield a thought as it came; one that nobody signed is not taken back."""
    if thought.is_redacted:
        yield {"type": "redacted_thinking", "data": thought.signature}
    elif thought.signature:
        yield {
            "type": "thinking",
            "thinking": whole_characters(thought.text),
            "signature": thought.signature,
        }


def _text(text: str) -> Iterator[Block]:
    """Yield the text as a block; blank ones are refused by the API."""
    if text.strip():
        yield {"type": "text", "text": whole_characters(text)}


def _tool(tool: ToolDeclaration) -> Block:
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": tool.parameters,
    }
