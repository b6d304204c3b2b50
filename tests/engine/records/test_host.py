from typing import Any

import pytest

from engine.core.errors import CorruptionError, UsageError
from engine.records import host
from engine.records.host import (
    AckFrame,
    CallFrame,
    CancelFrame,
    GoodbyeFrame,
    HoldFrame,
    HostRecordV1,
    UnknownFrameError,
    decode_client_frame,
    decode_hello,
    decode_host,
    encode_host,
)
from tests.support.jobs import readable

KINDS = "call, cancel, hold, command, ack, model, pieces, uses, idle, history, entered, goodbye"
RECORD = HostRecordV1(session="s1", socket="/run/s", token="t" * 43, pid=7)
HELLO = {"type": "hello", "v": 1, "token": "t", "role": "session", "session": "s1", "cwd": "/src"}


def test_record_of_a_host_comes_back_as_it_was() -> None:
    assert decode_host(encode_host(RECORD), "host.json") == RECORD


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "it is not JSON"),
        (encode_host(RECORD).replace(b'"v": 1', b'"v": 2'), "v: 2 is not one of the known values"),
        (encode_host(RECORD).replace(b'"pid"', b'"pod"'), 'unknown field "pod"'),
        (encode_host(RECORD).replace(b"t" * 43, b"short"), "token"),
    ],
    ids=["empty", "newer", "unknown field", "short token"],
)
def test_damaged_record_of_a_host_is_refused_with_its_name(data: bytes, says: str) -> None:
    with pytest.raises(CorruptionError, match="is damaged: ") as caught:
        decode_host(data, "host.json")
    assert says in str(caught.value)


def test_hello_says_who_comes_and_from_where() -> None:
    found = decode_hello({**HELLO, "mode": "tui", "trust": True})
    assert (found.role, found.session, found.cwd) == ("session", "s1", "/src")
    assert (found.mode, found.trust) == ("tui", True)
    assert decode_hello(host.hello("t", "nudge", "s1")).role == "nudge"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"v": 2}, "v: 2 is not one of the known values; it must be 1, the version that this host"),
        ({"cwd": "here"}, 'cwd: "here" does not fit; it must be an absolute path'),
        ({"cwd": "/a\0b"}, "holds a NUL character"),
        ({"role": "viewer"}, 'role: "viewer" is not one of the known values'),
        ({"type": "ack"}, 'type: "ack" is not one of the known values'),
        ({"name": "me"}, 'unknown field "name"'),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_other_hellos_are_refused_in_one_sentence(change: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        decode_hello({**HELLO, **change})
    assert readable(caught.value).startswith("hello: ")
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("frame", "found"),
    [
        (
            {"type": "call", "id": 1, "tool": "pinata_run", "arguments": {"tasks": []}},
            CallFrame(type="call", id=1, tool="pinata_run", arguments={"tasks": []}),
        ),
        ({"type": "cancel", "id": "a"}, CancelFrame(type="cancel", id="a")),
        ({"type": "hold", "id": 3}, HoldFrame(type="hold", id=3)),
        ({"type": "ack", "delivery": "ab/1"}, AckFrame(type="ack", delivery="ab/1")),
        ({"type": "goodbye", "reason": "fork"}, GoodbyeFrame(type="goodbye", reason="fork")),
    ],
    ids=["call", "cancel", "hold", "ack", "goodbye"],
)
def test_frames_of_a_client_are_told_by_their_type(frame: dict[str, Any], found: object) -> None:
    assert decode_client_frame(frame) == found


@pytest.mark.parametrize(
    ("frame", "says"),
    [
        ({"type": "fly"}, f"a frame must be one of {KINDS}"),
        ({"type": ["call"]}, f"a frame must be one of {KINDS}"),
        ({}, f"a frame must be one of {KINDS}"),
        ({"type": "ack"}, "ack: delivery is missing"),
        ({"type": "call", "id": True, "tool": "x", "arguments": {}}, "call: id"),
        ({"type": "cancel", "id": "x" * 201}, "cancel: id"),
        ({"type": "call", "id": 1, "tool": "x", "arguments": []}, "call: arguments"),
        ({"type": "goodbye", "reason": "bored"}, "goodbye: reason"),
    ],
    ids=["unknown", "no text", "empty", "missing", "id", "long id", "arguments", "reason"],
)
def test_other_frames_are_refused_in_one_sentence(frame: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        decode_client_frame(frame)
    assert readable(caught.value).startswith(says)


def test_frame_of_a_newer_client_is_told_from_nonsense() -> None:
    with pytest.raises(UnknownFrameError) as caught:
        decode_client_frame({"type": "fly", "id": 7, "far": True})
    assert caught.value.id == 7
    assert str(caught.value) == (f'unknown frame "fly"; this host knows {KINDS}')


def test_only_a_result_that_settles_a_run_asks_for_an_ack() -> None:
    assert host.result(1, {"a": 1}, None) == {"type": "result", "id": 1, "answer": {"a": 1}}
    assert host.result(1, {}, "ab/1")["delivery"] == "ab/1"
