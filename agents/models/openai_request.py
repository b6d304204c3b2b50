"""What is asked of a server that speaks OpenAI's chat completions. Pure.

Source: OpenAI's API reference, "Create chat completion". Nothing is sent that only some servers
know, apart from thoughts, which go back under the name by which they came.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import assert_never

from agents.models.catalog import ModelInfo
from agents.models.characters import whole_characters
from agents.models.port import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolDeclaration,
    ToolMessage,
    UserMessage,
)
from engine.core.spec import Thinking

THOUGHT_FIELDS = ("reasoning_content", "reasoning", "reasoning_text")
Body = dict[str, object]


def build_request(
    info: ModelInfo,
    thinking: Thinking,
    system: str,
    messages: Sequence[Message],
    tools: Sequence[ToolDeclaration],
) -> Body:
    """Return the body of the request for the next answer of a conversation."""
    body: Body = {
        "model": info.id,
        "messages": list(_said(system, messages)),
        "stream": True,
        "stream_options": {"include_usage": True},
        "store": False,
    }
    if info.max_output_tokens is not None:
        body["max_completion_tokens"] = info.max_output_tokens
    if info.reasoning and thinking is not Thinking.OFF:
        body["reasoning_effort"] = thinking.value
    if tools:
        body["tools"] = [_declared(tool) for tool in tools]
    return body


def _said(system: str, messages: Sequence[Message]) -> Iterator[Body]:
    if system:
        yield {"role": "system", "content": whole_characters(system)}
    for message in messages:
        match message:
            case UserMessage():
                yield {"role": "user", "content": whole_characters(message.text)}
            case AssistantMessage():
                # Servers refuse an answer that says nothing, and it says nothing to the model.
                if message.text or message.calls:
                    yield _answered(message)
            case ToolMessage():
                text = whole_characters(message.text)
                yield {"role": "tool", "tool_call_id": message.call, "content": text}
            case _:
                assert_never(message)


def _answered(message: AssistantMessage) -> Body:
    said: Body = {"role": "assistant", "content": whole_characters(message.text) or None}
    if message.calls:
        said["tool_calls"] = [_called(call) for call in message.calls]
    for name in THOUGHT_FIELDS:
        texts = [thought.text for thought in message.thoughts if thought.signature == name]
        if texts:
            said[name] = whole_characters("\n".join(texts))
    return said


def _called(call: ToolCall) -> Body:
    function = {"name": call.name, "arguments": json.dumps(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def _declared(tool: ToolDeclaration) -> Body:
    function: Mapping[str, object] = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
    }
    return {"type": "function", "function": function}
