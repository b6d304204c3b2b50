import pytest

from engine.core.errors import (
    ConflictError,
    CorruptionError,
    ExternalError,
    HeldElsewhereError,
    PinataError,
    UsageError,
)
from engine.records.link import (
    AckFrame,
    CancelFrame,
    FactsV1,
    LinkV1,
    MessagesFrame,
    RequestFrame,
    SteerFrame,
    decode_error,
    decode_facts,
    decode_hello,
    decode_link,
    decode_request,
    encode_error,
    encode_facts,
    encode_link,
)

TOKEN = "a1" * 32
LINK = LinkV1(run="0" * 16, socket="/there/link.sock", token=TOKEN, pid=4711)
HELLO = {"type": "hello", "v": 1, "token": TOKEN, "role": "viewer", "run": "0" * 16}


def test_a_link_is_read_as_it_was_written() -> None:
    assert decode_link(encode_link(LINK), "link.json") == LINK


def test_a_token_shows_up_in_no_message() -> None:
    assert TOKEN not in repr(LINK)
    hello = decode_hello(HELLO)
    assert TOKEN not in repr(hello)
    damaged = encode_link(LINK).replace(b'"pid":4711', b'"pid":true')
    with pytest.raises(CorruptionError) as refused:
        decode_link(damaged, "link.json")
    assert str(refused.value) == "link.json is damaged, or of another version of pinata"


@pytest.mark.parametrize(
    "change", [{"v": 2}, {"token": "short"}, {"socket": ""}, {"more": 1}, {"kind": "run"}]
)
def test_another_file_is_no_link(change: dict[str, object]) -> None:
    data = LINK.model_copy(update=change).model_dump_json(warnings=False).encode()
    if "more" in change:
        data = data.replace(b"{", b'{"more":1,', 1)
    with pytest.raises(CorruptionError):
        decode_link(data, "link.json")


def test_a_hello_is_taken_as_it_should_be() -> None:
    for role in ("viewer", "user", "coordinator"):
        hello = decode_hello(HELLO | {"role": role})
        assert hello is not None
        assert (hello.token, hello.role, hello.run) == (TOKEN, role, "0" * 16)


@pytest.mark.parametrize(
    "frame",
    [
        None,
        {},
        {"type": "ack", "seq": 1},
        HELLO | {"v": 2},
        HELLO | {"v": True},
        HELLO | {"v": "1"},
        HELLO | {"token": None},
        HELLO | {"role": "owner"},
        HELLO | {"more": 1},
    ],
)
def test_anything_else_is_no_hello(frame: object) -> None:
    assert decode_hello(frame) is None


@pytest.mark.parametrize(
    ("frame", "request_"),
    [
        ({"type": "ack", "seq": -1}, AckFrame(type="ack", seq=-1)),
        (
            {"type": "steer", "id": 1, "task": "a", "text": "x", "followUp": True},
            SteerFrame(type="steer", id=1, task="a", text="x", followUp=True),
        ),
        (
            {"type": "steer", "id": 1, "task": "a", "text": ""},
            SteerFrame(type="steer", id=1, task="a", text="", followUp=False),
        ),
        ({"type": "cancel", "id": 0}, CancelFrame(type="cancel", id=0)),
        ({"type": "cancel", "id": 0, "task": "a"}, CancelFrame(type="cancel", id=0, task="a")),
        (
            {"type": "messages", "id": 2, "task": "a", "attempt": 1},
            MessagesFrame(type="messages", id=2, task="a", attempt=1),
        ),
    ],
)
def test_requests_are_told_apart(frame: dict[str, object], request_: RequestFrame) -> None:
    assert decode_request(frame) == request_


@pytest.mark.parametrize(
    ("frame", "says"),
    [
        ({}, "unknown frame null; the frames are ack, steer, cancel and messages"),
        ({"type": ["ack"]}, 'unknown frame ["ack"]; the frames are'),
        ({"type": "hello"}, 'unknown frame "hello"'),
        ({"type": "ack"}, "frame ack: seq is missing"),
        ({"type": "ack", "seq": True}, "frame ack: seq: true is not an integer"),
        ({"type": "cancel", "id": -1}, "frame cancel: id: -1 is too small"),
        ({"type": "cancel", "id": 1, "task": None}, "frame cancel: task: null is not text"),
        ({"type": "cancel", "id": 1, "why": "x"}, 'frame cancel: unknown field "why"'),
        ({"type": "messages", "id": 1, "task": "a", "attempt": 0}, "attempt: 0 is too small"),
    ],
)
def test_a_request_that_is_wrong_is_refused_by_name(frame: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError) as refused:
        decode_request(frame)
    assert says in str(refused.value)


def test_facts_survive_their_journey() -> None:
    facts = FactsV1(
        run="0" * 16,
        folder="/there",
        started_at_ms=5,
        agents={"b": "scout", "a": "scout"},
        after={"b": [], "a": ["b"]},
        notices=["mind \ud800 this"],
    )
    assert decode_facts(encode_facts(facts)) == facts
    assert list(decode_facts(encode_facts(facts)).after) == ["b", "a"]
    with pytest.raises(CorruptionError, match="the facts of a run are damaged"):
        decode_facts({"run": 1})


@pytest.mark.parametrize(
    ("error", "branch"),
    [
        (UsageError("no such task"), UsageError),
        (ConflictError("settled already"), ConflictError),
        (HeldElsewhereError("run x", "somebody"), ConflictError),
        (CorruptionError("damaged"), CorruptionError),
        (ExternalError("disk full"), ExternalError),
    ],
    ids=lambda each: each.__name__ if isinstance(each, type) else type(each).__name__,
)
def test_an_error_keeps_its_branch_and_its_words(
    error: PinataError, branch: type[PinataError]
) -> None:
    arrived = decode_error({"id": 1, "type": "error", **encode_error(error)})
    assert (type(arrived), str(arrived)) == (branch, str(error))


@pytest.mark.parametrize(
    "frame", [{}, {"error": "x"}, {"error": "x", "kind": "none"}, {"error": 1, "kind": "usage"}]
)
def test_anything_else_is_no_error(frame: dict[str, object]) -> None:
    with pytest.raises(CorruptionError, match="an error that is none"):
        decode_error(frame)
