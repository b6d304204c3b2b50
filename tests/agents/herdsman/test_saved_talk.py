import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from agents.filetools.tool import ToolAnswer
from agents.herdsman.identity import Label, RequestId, SessionId
from agents.herdsman.record import RequestKind
from agents.herdsman.runtime import GUIDANCE, IDENTITY, RETIRED, Entry, request_message
from agents.herdsman.saved_talk import Leading, SavedTalk, open_saved_talk
from agents.herdsman.session_file import begin_managed_session
from agents.models.port import (
    AssistantMessage,
    StopReason,
    ToolCall,
    ToolDeclaration,
    ToolMessage,
    Usage,
    UserMessage,
)
from agents.session_branch import Branch
from agents.session_messages import NO_ANSWER
from engine.core.errors import CorruptionError, ExternalError
from engine.core.spec import ModelChoice, Thinking
from tests.support.clock import FakeClock

SESSION = SessionId("01a2b3c4-0000-4000-8000-000000000001")
LOOK = ToolCall("call_1", "read", {"path": "a"})
TASK = request_message(RequestId("request-1"), RequestKind.TASK, "Begin.")


def leading(system: str = "You look.\n", *tools: str, model: str = "m1") -> Leading:
    declared = tuple(ToolDeclaration(name, name, {"type": "object"}) for name in tools)
    return Leading(system, declared, ModelChoice("acme", model, Thinking.LOW))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A session that was prepared."""
    file = tmp_path / "s.jsonl"
    begin_managed_session(
        file, SESSION, cwd="/repo", definition="scout", label=Label("one"), now_ms=1
    )
    return file


def bytes_of(path: Path) -> bytes:
    return path.read_bytes()


def put(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def lines_of(path: Path) -> list[dict[str, Any]]:
    text = path.read_text(encoding="utf-8")
    assert text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


@asynccontextmanager
async def opened(path: Path, led: Leading | None = None) -> AsyncIterator[SavedTalk]:
    async with open_saved_talk(path, SESSION, led or leading(), FakeClock()) as talk:
        yield talk


async def test_opening_writes_nothing_and_the_first_message_says_what_leads_it(path: Path) -> None:
    prepared = bytes_of(path)
    async with opened(path, leading("You look.\n", "read")) as talk:
        assert bytes_of(path) == prepared
        await talk.tell(TASK)
        await talk.tell(TASK)
    model, level, system, first, second = lines_of(path)[2:]
    assert (model["provider"], model["modelId"]) == ("acme", "m1")
    assert level["thinkingLevel"] == "low"
    assert system["message"]["sections"] == {"preamble": "You look.\n"}
    assert [tool["name"] for tool in system["message"]["toolsAdded"]] == ["read"]
    assert (first["content"], first["details"]) == (
        "Begin.",
        {"request": "request-1", "kind": "task"},
    )
    assert second["parentId"] == first["id"]


async def test_what_leads_it_now_replaces_all_that_led_it_before(path: Path) -> None:
    async with opened(path, leading("One.\n", "read", "grep")) as talk:
        await talk.tell(TASK)
    with path.open("a") as file:
        system = {"role": "system", "sections": {"docs": "Pi's own"}, "content": ""}
        leaf = lines_of(path)[-1]["id"]
        line = {"type": "message", "id": "77777777", "parentId": leaf, "message": system}
        file.write(json.dumps(line) + "\n")
    async with opened(path, leading("Two.\n", "read", model="m2")) as talk:
        assert talk.messages == [UserMessage("Begin.")]
        await talk.tell(TASK)
    lead = Branch.of(lines_of(path)).lead()
    assert (lead.model, lead.thinking) == ("m2", Thinking.LOW)
    assert lead.sections == {"preamble": "Two.\n"}
    assert list(lead.tools) == ["read"]
    levels = [line for line in lines_of(path) if line["type"] == "thinking_level_change"]
    assert len(levels) == 1


async def test_all_that_was_said_is_read_back_as_it_was(path: Path) -> None:
    async with opened(path) as talk:
        await talk.tell(TASK)
        await talk.hear(AssistantMessage("I look.", (LOOK,)), StopReason.TOOL_USE, Usage(90, 10))
        await talk.answer(LOOK, ToolAnswer("it is gone", is_error=True), {"for": "programs"})
        await talk.mishear(AssistantMessage("Hal"), StopReason.ERROR, "503: busy", Usage())
        await talk.append(RETIRED, {"session": SESSION})
        said, entries = list(talk.messages), talk.entries
    async with opened(path) as talk:
        assert list(talk.messages) == said
        assert talk.entries == entries
    assert said == [
        UserMessage("Begin."),
        AssistantMessage("I look.", (LOOK,)),
        ToolMessage("call_1", "read", "it is gone", is_error=True),
    ]
    assert [entry.kind for entry in entries] == [IDENTITY, TASK.kind, RETIRED]
    (answer,) = [
        line["message"] for line in lines_of(path) if "toolCallId" in line.get("message", {})
    ]
    assert answer["details"] == {"for": "programs"}


async def test_a_summary_stands_for_what_came_before_also_when_it_is_read_back(path: Path) -> None:
    async with opened(path) as talk:
        await talk.tell(TASK)
        await talk.hear(AssistantMessage("One."), StopReason.STOP, Usage())
        await talk.tell(TASK)
        await talk.hear(AssistantMessage("Two."), StopReason.STOP, Usage())
        await talk.compact(2, "Done: one.", Usage())
        said = list(talk.messages)
        await talk.hear(AssistantMessage("Three."), StopReason.STOP, Usage())
    async with opened(path) as talk:
        assert list(talk.messages) == [*said, AssistantMessage("Three.")]
    summary, *rest = said
    assert isinstance(summary, UserMessage)
    assert "Done: one." in summary.text
    assert rest == [UserMessage("Begin."), AssistantMessage("Two.")]


async def test_calls_that_nobody_answered_are_answered_before_more_is_told(path: Path) -> None:
    async with opened(path) as talk:
        await talk.tell(TASK)
        await talk.hear(AssistantMessage("", (LOOK,)), StopReason.TOOL_USE, Usage())
    async with opened(path) as talk:
        await talk.tell(TASK)
        closed = ToolMessage("call_1", "read", NO_ANSWER, is_error=True)
        assert list(talk.messages)[2:] == [closed, UserMessage("Begin.")]
    assert [line["type"] for line in lines_of(path)[-2:]] == ["message", "custom_message"]


async def test_a_last_line_without_an_end_is_kept_when_it_is_whole_and_cut_when_torn(
    path: Path,
) -> None:
    whole = bytes_of(path)
    put(path, whole.removesuffix(b"\n"))
    async with opened(path) as talk:
        assert [entry.kind for entry in talk.entries] == [IDENTITY]
    assert bytes_of(path) == whole
    put(path, whole + b'{"type":"cus')
    async with opened(path) as talk:
        await talk.append(RETIRED, {})
    assert bytes_of(path).startswith(whole)
    assert [line.get("customType") for line in lines_of(path)] == [None, IDENTITY, RETIRED]


@pytest.mark.parametrize(
    "line",
    [
        {"type": "message", "id": ["a"], "parentId": None},
        {"type": "custom", "customType": "pinata-agent-retired", "data": [], "id": {"a": 1}},
        {"type": "context_edit", "id": "aa", "parentId": None, "targetId": ["a"]},
        {"type": "message", "id": "aa", "message": {"role": "assistant", "stopReason": {}}},
        {"type": "message", "id": "aa", "message": {"role": "toolResult", "toolCallId": []}},
    ],
)
async def test_what_stands_where_a_text_should_is_no_reason_to_break_down(
    path: Path, line: dict[str, Any]
) -> None:
    put(path, bytes_of(path) + json.dumps(line).encode() + b"\n")
    async with opened(path) as talk:
        await talk.tell(TASK)
        assert talk.messages[-1] == UserMessage("Begin.")


async def test_a_line_in_the_middle_that_nobody_can_read_is_passed_over(path: Path) -> None:
    put(path, bytes_of(path) + b'{"torn\n[1]\n')
    async with opened(path) as talk:
        await talk.tell(TASK)
    async with opened(path) as talk:
        assert talk.messages == [UserMessage("Begin.")]


@pytest.mark.parametrize(
    ("first", "fault"),
    [
        pytest.param(b"", "is no session file of version 3", id="empty"),
        pytest.param(b'{"type":"session","version":2,"id":"x"}\n', "of version 3", id="older"),
        pytest.param(
            b'{"type":"session","version":3,"id":"other"}\n', "is the session other", id="other"
        ),
    ],
)
async def test_a_file_that_is_not_this_session_is_refused(
    tmp_path: Path, first: bytes, fault: str
) -> None:
    path = tmp_path / "s.jsonl"
    put(path, first)
    with pytest.raises(CorruptionError, match=fault):
        async with opened(path):
            raise AssertionError


async def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExternalError, match=r"cannot be read: .*: No such file"):
        async with opened(tmp_path / "none.jsonl"):
            raise AssertionError
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises((CorruptionError, ExternalError)):
        async with opened(tmp_path / "fifo"):
            raise AssertionError


async def test_what_cannot_be_saved_is_neither_in_the_file_nor_in_memory(path: Path) -> None:
    async with opened(path) as talk:
        await talk.tell(TASK)
        saved = bytes_of(path)
        descriptor = talk._log._descriptor
        assert descriptor is not None
        kept = os.dup(descriptor)
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, descriptor)
        os.close(full)
        with pytest.raises(ExternalError, match="No space left on device"):
            await talk.tell(TASK)
        with pytest.raises(ExternalError, match="No space left on device"):
            await talk.append(RETIRED, {})
        os.dup2(kept, descriptor)
        os.close(kept)
        assert talk.messages == [UserMessage("Begin.")]
        assert [entry.kind for entry in talk.entries] == [IDENTITY, TASK.kind]
        await talk.append(GUIDANCE, {})
    lines = lines_of(path)
    assert bytes_of(path).startswith(saved)
    assert lines[-1]["parentId"] == lines[-2]["id"]
    assert lines[-1]["customType"] == GUIDANCE


async def test_a_cancelled_call_is_done_whole(path: Path) -> None:
    async with opened(path) as talk:
        with trio.CancelScope() as scope:
            scope.cancel()
            await talk.tell(TASK)
        assert talk.messages == [UserMessage("Begin.")]
        assert lines_of(path)[-1]["content"] == "Begin."


async def test_many_who_add_at_once_make_one_chain(path: Path) -> None:
    async with opened(path) as talk, trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(talk.append, RETIRED, {"number": number})
            nursery.start_soon(talk.tell, TASK)
    lines = lines_of(path)[1:]
    assert [line["parentId"] for line in lines[1:]] == [line["id"] for line in lines[:-1]]
    assert len(Branch.of(lines_of(path)).entries) == len(lines)


async def test_nothing_is_taken_after_the_end(path: Path) -> None:
    async with opened(path) as talk:
        pass
    with pytest.raises(ExternalError, match="the agent is gone"):
        await talk.append(RETIRED, {})
    assert talk.entries == (
        Entry(IDENTITY, {"session": SESSION, "definition": "scout", "label": "one"}),
    )
