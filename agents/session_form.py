"""What lines of a Pi session file hold: messages and their parts in Pi's form.

Source: Pi's session format, version 3.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from agents.models.port import (
    AssistantMessage,
    StopReason,
    Thought,
    ToolDeclaration,
    ToolMessage,
    Usage,
    UserMessage,
)
from engine.core.spec import ModelChoice

VERSION = 3


def header_line(id_: str, cwd: str, now_ms: int) -> Mapping[str, object]:
    """Return the line that a session file begins with."""
    timestamp = iso(now_ms)
    return {"type": "session", "version": VERSION, "id": id_, "timestamp": timestamp, "cwd": cwd}


def decode_line(line: bytes) -> dict[str, Any] | None:
    """Return what a line of a session file holds; None where it is torn, or no object."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def system_message(
    system: str, tools: Sequence[ToolDeclaration], now_ms: int
) -> Mapping[str, object]:
    """Return the message that tells what a conversation is led with."""
    return {
        "role": "system",
        "content": "",
        "sections": {"preamble": system},
        "toolsAdded": [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
            for tool in tools
        ],
        "timestamp": now_ms,
    }


def user_message(message: UserMessage) -> Mapping[str, object]:
    """Return what was said to the model."""
    return {"role": "user", "content": _text(message.text)}


def answer_message(
    message: AssistantMessage,
    choice: ModelChoice,
    stop_reason: StopReason,
    usage: Usage,
    error: str | None = None,
) -> Mapping[str, object]:
    """Return what the model said.

    Args:
        message: all of it.
        choice: which model it was.
        stop_reason: why it stopped.
        usage: what it cost.
        error: why it broke off, if it did.
    """
    content: list[object] = []
    content += [_thinking(thought) for thought in message.thoughts]
    if message.text:
        content += _text(message.text)
    content += [
        {
            "type": "toolCall",
            "id": call.id,
            "name": call.name,
            "arguments": call.arguments,
        }
        for call in message.calls
    ]
    failure: dict[str, object] = {} if error is None else {"errorMessage": error}
    return {
        "role": "assistant",
        "content": content,
        "api": choice.provider,
        "provider": choice.provider,
        "model": choice.id,
        "usage": usage_form(usage),
        "stopReason": stop_reason.value,
        **failure,
    }


def tool_message(
    message: ToolMessage, details: Mapping[str, object] | None = None
) -> Mapping[str, object]:
    """Return what a tool answered, and what it tells programs."""
    return {
        "role": "toolResult",
        "toolCallId": message.call,
        "toolName": message.tool,
        "content": _text(message.text),
        **({"details": details} if details else {}),
        "isError": message.is_error,
    }


def usage_form(usage: Usage) -> dict[str, object]:
    """Return usage in Pi's form; Pi knows no unknown price, so that one shows as nothing spent."""
    cost = usage.cost_usd or 0.0
    return {
        "input": usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens,
        "output": usage.output_tokens,
        "cacheRead": usage.cache_read_tokens,
        "cacheWrite": usage.cache_write_tokens,
        "totalTokens": usage.input_tokens + usage.output_tokens,
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": cost},
    }


def compaction(
    summary: str,
    first_kept: str,
    tokens_before: int,
    usage: Usage,
    system: Mapping[str, object],
) -> Mapping[str, object]:
    """Return that a summary stands for everything before an entry.

    Args:
        summary: all that whoever continues the conversation is told about what came before.
        first_kept: the id of the first entry that is still shown.
        tokens_before: about how long the conversation was.
        usage: what the summary cost.
        system: what the conversation is led with; see `system_message`.
    """
    return {
        "summary": summary,
        "firstKeptEntryId": first_kept,
        "tokensBefore": tokens_before,
        "details": {"readFiles": [], "modifiedFiles": []},
        "usage": usage_form(usage),
        "fromHook": False,
        "systemMessage": system,
    }


def iso(now_ms: int) -> str:
    """Return a moment as session files write it."""
    moment = datetime.fromtimestamp(now_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _text(text: str) -> list[object]:
    return [{"type": "text", "text": text}]


def _thinking(thought: Thought) -> dict[str, object]:
    block: dict[str, object] = {"type": "thinking", "thinking": thought.text}
    if thought.signature:
        block["thinkingSignature"] = thought.signature
    if thought.is_redacted:
        block["redacted"] = True
    return block
