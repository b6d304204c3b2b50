"""Tests of `agents.herdsman.conversation_text`."""

import json
from typing import Any

import pytest

from agents.herdsman.conversation_text import (
    TOOL_RESULT_LIMIT_BYTES,
    TRANSCRIPT_LIMIT_BYTES,
    ConversationText,
    conversation_text,
)
from agents.herdsman.identity import SessionId
from agents.herdsman.marker import MARKER
from agents.herdsman.runtime import REQUEST, RESULT
from engine.core.errors import CorruptionError

SESSION = SessionId("0198c0de-0000-7000-8000-000000000001")


class Saved:
    """A session file that grows line by line; each entry follows the one before it."""

    def __init__(self, *, session: str = SESSION, version: int = 3) -> None:
        header = {"type": "session", "version": version, "id": session, "cwd": "/repo"}
        self.lines: list[str] = [json.dumps(header)]
        self.leaf: str | None = None
        self._count = 0

    def add(self, kind: str, **fields: Any) -> str:
        self._count += 1
        id_ = f"{self._count:08x}"
        self.lines.append(json.dumps({"type": kind, "id": id_, "parentId": self.leaf, **fields}))
        self.leaf = id_
        return id_

    def say(self, role: str, content: object, **fields: Any) -> str:
        return self.add("message", message={"role": role, "content": content, **fields})

    def text(self) -> ConversationText:
        return conversation_text("".join(f"{line}\n" for line in self.lines).encode(), SESSION)


def text(value: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": value}]


def call(name: str, **arguments: object) -> dict[str, object]:
    return {"type": "toolCall", "id": "call_1", "name": name, "arguments": arguments}


def test_words_calls_and_results_are_told_in_order() -> None:
    saved = Saved()
    saved.say("user", "read it")
    saved.say("assistant", [*text("I look."), call("read", path="a.py")])
    saved.say("toolResult", text("1 + 1"), toolName="read", isError=False)
    saved.say("assistant", text("It is two."))
    assert saved.text() == ConversationText(
        "User:\nread it\n\n"
        'Assistant:\nI look.\n\nCall of read:\n{"path": "a.py"}\n\n'
        "Result of read:\n1 + 1\n\n"
        "Assistant:\nIt is two.",
        was_cut=False,
    )


def test_a_failed_tool_is_told_as_failed() -> None:
    saved = Saved()
    saved.say("toolResult", text("no such file"), toolName="read", isError=True)
    assert saved.text().text == "Result of read (error):\nno such file"


def test_a_call_in_progress_stands_without_a_result() -> None:
    saved = Saved()
    saved.say("user", "test it")
    saved.say("assistant", [call("bash", command="make test")])
    assert saved.text().text == 'User:\ntest it\n\nCall of bash:\n{"command": "make test"}'


def test_what_is_nobodys_word_is_left_out() -> None:
    saved = Saved()
    saved.add("model_change", provider="a-provider", modelId="a-model")
    saved.add("thinking_level_change", thinkingLevel="high")
    saved.say("system", "", sections={"preamble": "a secret prompt"})
    saved.say("user", [*text("look"), {"type": "image", "data": "aGk=", "mimeType": "image/png"}])
    saved.say(
        "assistant",
        [{"type": "thinking", "thinking": "hidden thought"}, *text("seen")],
        model="a-model",
        provider="a-provider",
    )
    saved.say("bashExecution", None, command="ls", output="out")
    saved.say("custom", "of an old extension", customType="other")
    saved.add("custom", customType="pinata-agent-identity", data={"label": "scout"})
    saved.add("custom_message", customType=RESULT, content="result of a child", display=True)
    saved.add("custom_message", customType="other", content="of an extension", display=True)
    saved.say("user", f"{MARKER}0198c0de-0000-7000-8000-000000000009")
    saved.add("label", targetId="00000001", label="here")
    saved.add("session_info", name="a name")
    assert saved.text() == ConversationText("User:\nlook\n\nAssistant:\nseen", was_cut=False)


@pytest.mark.parametrize("content", ["do it", text("do it")], ids=["text", "pieces"])
def test_a_request_of_the_herd_is_told_as_what_the_user_said(content: object) -> None:
    saved = Saved()
    saved.add("custom_message", customType=REQUEST, content=content, details={"request": "r"})
    assert saved.text().text == "User:\ndo it"


def test_a_summary_stands_once_for_what_came_before_it() -> None:
    saved = Saved()
    saved.say("user", "first")
    saved.add("compaction", summary="older summary", firstKeptEntryId="00000001")
    saved.say("assistant", text("forgotten"))
    kept = saved.say("user", "kept")
    saved.say("system", "a prompt")
    saved.add("compaction", summary="what was done", firstKeptEntryId=kept)
    saved.say("assistant", text("after"))
    assert saved.text().text == (
        "Summary of the conversation so far:\nwhat was done\n\nUser:\nkept\n\nAssistant:\nafter"
    )


def test_an_earlier_summary_among_what_is_kept_is_not_told_again() -> None:
    saved = Saved()
    kept = saved.say("user", "kept")
    saved.add("compaction", summary="older summary", firstKeptEntryId=kept)
    saved.say("user", "between")
    saved.add("compaction", summary="newer summary", firstKeptEntryId=kept)
    assert saved.text().text == (
        "Summary of the conversation so far:\nnewer summary\n\nUser:\nkept\n\nUser:\nbetween"
    )


def test_a_summary_that_keeps_nothing_known_stands_alone() -> None:
    saved = Saved()
    saved.say("user", "gone")
    saved.add("compaction", summary="all of it", firstKeptEntryId="elsewhere")
    assert saved.text().text == "Summary of the conversation so far:\nall of it"


def test_a_branch_that_was_left_shows_in_its_summary_alone() -> None:
    saved = Saved()
    fork = saved.say("user", "begin")
    saved.say("assistant", text("abandoned"))
    saved.leaf = fork
    saved.add("branch_summary", summary="went astray", fromId="00000002")
    saved.say("assistant", text("on the branch"))
    assert saved.text().text == (
        "User:\nbegin\n\nSummary of a branch that was left:\nwent astray\n\n"
        "Assistant:\non the branch"
    )


def test_a_hidden_answer_is_not_told() -> None:
    saved = Saved()
    saved.say("user", "go")
    failed = saved.say("assistant", text("broke off"), errorMessage="429")
    saved.add("context_edit", targetId=failed, replacement=None)
    saved.say("assistant", text("done"))
    assert saved.text().text == "User:\ngo\n\nAssistant:\ndone"


def test_an_edit_that_is_kept_hides_what_is_kept_too() -> None:
    saved = Saved()
    kept = saved.say("user", "kept")
    hidden = saved.say("assistant", text("hidden"))
    saved.add("context_edit", targetId=hidden, replacement=None)
    saved.add("compaction", summary="so far", firstKeptEntryId=kept)
    assert saved.text().text == "Summary of the conversation so far:\nso far\n\nUser:\nkept"


def test_the_latest_edit_of_an_entry_holds() -> None:
    saved = Saved()
    said = saved.say("assistant", text("first wording"))
    saved.add("context_edit", targetId=said, replacement=None)
    saved.add("context_edit", targetId=said, replacement={"content": "second wording"})
    assert saved.text().text == "Assistant:\nsecond wording"


def test_a_long_tool_result_keeps_its_ends() -> None:
    saved = Saved()
    saved.say("toolResult", text("b" + "ä" * 5_000 + "e"), toolName="bash")
    told = saved.text()
    result = told.text.removeprefix("Result of bash:\n")
    assert told.was_cut
    assert TOOL_RESULT_LIMIT_BYTES - 8 < len(result.encode()) <= TOOL_RESULT_LIMIT_BYTES
    assert result.startswith("bää")
    assert result.endswith("ääe")
    assert " bytes left out " in result


def test_a_tool_result_of_just_the_limit_is_whole() -> None:
    saved = Saved()
    saved.say("toolResult", text("x" * TOOL_RESULT_LIMIT_BYTES), toolName="bash")
    assert saved.text() == ConversationText(
        "Result of bash:\n" + "x" * TOOL_RESULT_LIMIT_BYTES, was_cut=False
    )


def test_a_long_conversation_keeps_its_end() -> None:
    saved = Saved()
    saved.say("user", "begin")
    for number in range(30):
        saved.say("assistant", text(f"{number} " + "ä" * 500))
    told = saved.text()
    assert told.was_cut
    assert TRANSCRIPT_LIMIT_BYTES - 4 < len(told.text.encode()) <= TRANSCRIPT_LIMIT_BYTES
    assert told.text.endswith("ä" * 500)
    assert "begin" not in told.text


def test_a_half_written_last_line_is_passed_over() -> None:
    saved = Saved()
    saved.say("user", "whole")
    saved.lines += ["17", '{"type":"message","id":"00000002","parentId":"00000001","mess']
    assert saved.text().text == "User:\nwhole"


def test_odd_entries_say_nothing() -> None:
    saved = Saved()
    saved.say("user", "begin")
    saved.add("message", message="not an object")
    saved.add("compaction", summary=None)
    saved.say("user", None)
    saved.say("assistant", ["text", {"type": "text", "text": 7}, {"type": "other"}])
    saved.lines.append('{"type":"message","parentId":"00000001"}')
    assert saved.text() == ConversationText("", was_cut=False)


def test_a_branch_whose_beginning_is_missing_is_told_from_where_it_goes_on() -> None:
    saved = Saved()
    saved.leaf = "ffffffff"
    saved.say("user", "what is left")
    assert saved.text().text == "User:\nwhat is left"


def test_a_session_without_entries_says_nothing() -> None:
    assert Saved().text() == ConversationText("", was_cut=False)


def test_ids_that_json_writes_in_several_ways_are_found() -> None:
    saved = Saved()
    saved.leaf = "ä-1"
    saved.lines.append(
        '{"type":"message","id":"\\u00e4-1","parentId":null,'
        '"message":{"role":"user","content":"first"}}'
    )
    saved.say("user", "second")
    assert saved.text().text == "User:\nfirst\n\nUser:\nsecond"


@pytest.mark.parametrize(
    "saved",
    [Saved(session="0198c0de-0000-7000-8000-000000000002"), Saved(version=2)],
    ids=["another session", "an older version"],
)
def test_a_file_that_is_not_the_sessions_is_refused(saved: Saved) -> None:
    saved.say("user", "hidden")
    with pytest.raises(CorruptionError):
        saved.text()


@pytest.mark.parametrize("data", [b"", b"no json\n", b"[]\n", b'{"type":"session"', b"\xff\n"])
def test_a_file_that_is_no_session_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptionError):
        conversation_text(data, SESSION)
