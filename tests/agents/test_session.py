import json
import os
from pathlib import Path

import pytest
import trio

from agents.models.port import (
    AssistantMessage,
    StopReason,
    Thought,
    ToolCall,
    ToolDeclaration,
    ToolMessage,
    Usage,
    UserMessage,
)
from agents.session import SessionHeader, open_session
from engine.core.errors import ExternalError
from engine.core.spec import ModelChoice, Thinking
from tests.support.agents import numbered_ids
from tests.support.clock import FakeClock

HEADER = SessionHeader("session-1", "/repo", ModelChoice("acme", "m1", Thinking.LOW))
AT_MS = 1_700_000_000_000
AT = "2023-11-14T22:13:20.000Z"


def lines_of(path: Path) -> list[dict[str, object]]:
    text = path.read_text(encoding="utf-8")
    assert text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


async def test_a_conversation_is_written_as_a_chain_of_entries(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    read = ToolDeclaration("read", "Reads.", {"type": "object"})
    async with open_session(path, HEADER, clock=FakeClock(), next_id=numbered_ids()) as session:
        await session.open_conversation("You read.", (read,), UserMessage("Begin, ü."))
        call = ToolCall("call_1", "read", {"path": "a"})
        await session.add_answer(
            AssistantMessage("I look.", (call,), (Thought("hm"),)),
            StopReason.TOOL_USE,
            Usage(7, 3, 0.25),
        )
        await session.add_tool(ToolMessage("call_1", "read", "no such file", is_error=True))
    assert lines_of(path) == [
        {"type": "session", "version": 3, "id": "session-1", "timestamp": AT, "cwd": "/repo"},
        {
            "type": "model_change",
            "id": "00000001",
            "parentId": None,
            "timestamp": AT,
            "provider": "acme",
            "modelId": "m1",
        },
        {
            "type": "thinking_level_change",
            "id": "00000002",
            "parentId": "00000001",
            "timestamp": AT,
            "thinkingLevel": "low",
        },
        {
            "type": "message",
            "id": "00000003",
            "parentId": "00000002",
            "timestamp": AT,
            "message": {
                "role": "system",
                "content": "",
                "sections": {"preamble": "You read."},
                "toolsAdded": [
                    {"name": "read", "description": "Reads.", "parameters": {"type": "object"}}
                ],
                "timestamp": AT_MS,
            },
        },
        {
            "type": "message",
            "id": "00000004",
            "parentId": "00000003",
            "timestamp": AT,
            "message": {
                "role": "user",
                "content": [{"type": "text", "text": "Begin, ü."}],
                "timestamp": AT_MS,
            },
        },
        {
            "type": "message",
            "id": "00000005",
            "parentId": "00000004",
            "timestamp": AT,
            "message": {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm"},
                    {"type": "text", "text": "I look."},
                    {
                        "type": "toolCall",
                        "id": "call_1",
                        "name": "read",
                        "arguments": {"path": "a"},
                    },
                ],
                "api": "acme",
                "provider": "acme",
                "model": "m1",
                "usage": {
                    "input": 7,
                    "output": 3,
                    "cacheRead": 0,
                    "cacheWrite": 0,
                    "totalTokens": 10,
                    "cost": {
                        "input": 0,
                        "output": 0,
                        "cacheRead": 0,
                        "cacheWrite": 0,
                        "total": 0.25,
                    },
                },
                "stopReason": "toolUse",
                "timestamp": AT_MS,
            },
        },
        {
            "type": "message",
            "id": "00000006",
            "parentId": "00000005",
            "timestamp": AT,
            "message": {
                "role": "toolResult",
                "toolCallId": "call_1",
                "toolName": "read",
                "content": [{"type": "text", "text": "no such file"}],
                "isError": True,
                "timestamp": AT_MS,
            },
        },
    ]


async def test_a_broken_answer_is_kept_for_people_and_hidden_from_models(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    async with open_session(path, HEADER, clock=FakeClock(), next_id=numbered_ids()) as session:
        await session.add_answer(
            AssistantMessage("half"), StopReason.ERROR, Usage(cost_usd=None), "503: busy"
        )
    broken, edit = lines_of(path)[-2:]
    message = broken["message"]
    assert isinstance(message, dict)
    assert (message["stopReason"], message["errorMessage"]) == ("error", "503: busy")
    assert edit == {
        "type": "context_edit",
        "id": "00000004",
        "parentId": "00000003",
        "timestamp": AT,
        "targetId": "00000003",
        "replacement": None,
    }


async def test_a_second_conversation_is_a_branch_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    async with open_session(path, HEADER, clock=FakeClock(), next_id=numbered_ids()) as session:
        await session.open_conversation("one", (), UserMessage("first"))
        await session.open_conversation("two", (), UserMessage("second"))
    chain = [(line["id"], line["parentId"]) for line in lines_of(path)[3:]]
    assert chain == [
        ("00000003", "00000002"),
        ("00000004", "00000003"),
        ("00000005", "00000002"),
        ("00000006", "00000005"),
    ]


async def test_the_file_is_private_and_appears_with_the_first_message(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    async with open_session(path, HEADER, clock=FakeClock(), next_id=numbered_ids()) as session:
        assert not path.exists()
        await session.open_conversation("one", (), UserMessage("first"))
        assert path.stat().st_mode & 0o777 == 0o600
        assert len(lines_of(path)) == 5


async def test_a_session_without_a_message_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    async with open_session(path, HEADER, clock=FakeClock(), next_id=numbered_ids()):
        pass
    assert not path.exists()


async def test_an_existing_file_is_never_written(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text("mine\n")
    async with open_session(path, HEADER, clock=FakeClock(), next_id=numbered_ids()) as session:
        with pytest.raises(ExternalError, match=r"s\.jsonl: File exists"):
            await session.open_conversation("one", (), UserMessage("first"))
    assert path.read_text() == "mine\n"


async def test_a_disk_that_takes_no_more_is_an_error_with_its_reason(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    async with open_session(path, HEADER, clock=FakeClock(), next_id=numbered_ids()) as session:
        await session.open_conversation("one", (), UserMessage("first"))
        assert session._log._descriptor is not None
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, session._log._descriptor)
        os.close(full)
        with pytest.raises(ExternalError, match=r"cannot be saved: .*: No space left on device"):
            await session.add_user(UserMessage("x"))


async def test_what_was_said_before_a_cancel_is_saved(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    with trio.CancelScope() as scope:
        async with open_session(path, HEADER, clock=FakeClock(), next_id=numbered_ids()) as session:
            await session.open_conversation("one", (), UserMessage("first"))
            scope.cancel()
            await session.add_user(UserMessage("second"))
    assert scope.cancelled_caught
    chain = [(line["id"], line["parentId"]) for line in lines_of(path)[-2:]]
    assert chain == [("00000004", "00000003"), ("00000005", "00000004")]
