import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from agents.transcript import SaidMessage, excerpt, read_transcript, whole
from engine.core.errors import CorruptionError


def entry(**message: object) -> str:
    return json.dumps({"type": "message", "id": "1", "message": message}) + "\n"


def put(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "s.jsonl"
    path.write_text("".join(lines), encoding="utf-8")
    return path


def test_messages_are_read_as_people_read_them(tmp_path: Path) -> None:
    text = {"type": "text", "text": "I look."}
    call = {"type": "toolCall", "id": "a", "name": "read", "arguments": {"path": "ü"}}
    path = put(
        tmp_path,
        '{"type":"session","version":3}\n',
        entry(role="system", content="", sections={"preamble": "You are.", "rules": "Be."}),
        entry(role="user", content="begin"),
        entry(role="assistant", content=[{"type": "thinking", "thinking": "hm"}, text, call]),
        entry(role="toolResult", toolName="read", content=[text]),
        entry(role="assistant", content=[text], errorMessage="503"),
        '{"type":"context_edit","targetId":"1"}\n',
    )
    assert read_transcript(path) == (
        SaidMessage("system", "You are.\n\nBe."),
        SaidMessage("user", "begin"),
        SaidMessage("assistant", 'I look.\n[calls read {"path": "ü"}]'),
        SaidMessage("tool read", "I look."),
        SaidMessage("assistant", "I look.\n(503)"),
    )


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    path = put(tmp_path, entry(role="user", content="whole"), entry(role="user", content="x")[:-9])
    assert read_transcript(path) == (SaidMessage("user", "whole"),)


@pytest.mark.parametrize(
    "line",
    [
        '{"type":"message","message":{"role":"user","content":5}}',
        '{"type":"message","message":{"role":"user","content":[5]}}',
        "{",
        "[]",
        '{"id": 1}',
        '{"type":"message"}',
        '{"type":"message","message":[]}',
        '{"type":"message","message":{"role":"system","content":"","sections":5}}',
    ],
)
def test_damage_elsewhere_is_named_with_its_line(tmp_path: Path, line: str) -> None:
    path = put(tmp_path, entry(role="user", content="a"), line + "\n")
    with pytest.raises(CorruptionError, match="line 2 is not a session entry"):
        read_transcript(path)


def test_a_conversation_that_has_not_begun_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_transcript(tmp_path / "none.jsonl")


def test_an_excerpt_is_the_tail_with_each_message_shortened() -> None:
    messages = [SaidMessage("user", f"message {n} " + "x" * 3_000) for n in range(20)]
    text = excerpt(messages)
    assert len(text) <= 6_000
    assert text.startswith("...\n")
    assert text.count("user: message") == 5
    assert "characters ..." in text
    assert "message 19" in text
    assert "message 14 " not in text


def test_a_short_conversation_is_shown_whole_without_its_prompt() -> None:
    messages = [SaidMessage("system", "s"), SaidMessage("user", "a"), SaidMessage("assistant", "b")]
    assert excerpt(messages) == "user: a\nassistant: b\n"


def test_the_whole_conversation_begins_with_its_prompt_and_steers_no_terminal() -> None:
    messages = [SaidMessage("system", "s\x1b[2J"), SaidMessage("user", "a")]
    assert whole(messages) == "system: s\\x1b[2J\nuser: a\n"


def test_no_room_for_even_a_mark_gives_nothing() -> None:
    assert excerpt([SaidMessage("user", "a")], limit_chars=2) == ""


@given(st.lists(st.tuples(st.text(), st.text(st.characters(exclude_categories=[])))))
def test_no_conversation_steers_a_terminal(said: list[tuple[str, str]]) -> None:
    text = excerpt([SaidMessage(role, words) for role, words in said])
    assert all(character in "\n\t" or ord(character) >= 0x20 for character in text)
    assert not any(0x7F <= ord(character) < 0xA0 for character in text)
    text.encode()
