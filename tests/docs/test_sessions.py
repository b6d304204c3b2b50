"""What is told of sessions is so: frames, limits, and where things lie."""

import json
import re
from pathlib import Path

from pydantic import BaseModel

from engine.records import host, host_models, host_owner
from engine.records.host import decode_client_frame, decode_hello
from engine.records.host_models import ListingFrame, PiecesFrame, StreamRequest, UsesFrame
from pinata.work.host_calls import MOST_CALLS
from pinata.work.host_greeting import HELLO_LIMIT_BYTES, HELLO_WAIT_S
from pinata.work.host_life import GRACE_S, Goodbye
from pinata.work.host_seat import PATIENCE_S
from pinata.work.host_server import FRAME_LIMIT_BYTES
from pinata.work.session import Session
from tests.support.reference import Page

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "sessions.md").read_text(encoding="utf-8")
PROTOCOL = PAGE.partition("## The protocol")[2]


def frames(table: str) -> dict[str, list[str]]:
    """Return the frames of a table, each with its fields."""
    rows = re.findall(r"^\| `(\w+)` \| ([^|]*) \|", table, re.MULTILINE)
    return {name: re.findall(r"`(\w+)`", fields) for name, fields in rows}


def test_frames_are_those_that_the_host_takes_and_sends() -> None:
    theirs, ours = (frames(part) for part in PROTOCOL.split("| The host says |"))
    known: dict[str, type[BaseModel]] = {
        "hello": host.HelloFrame,
        "call": host.CallFrame,
        "cancel": host.CancelFrame,
        "hold": host.HoldFrame,
        "command": host.CommandFrame,
        "ack": host.AckFrame,
        "model": ListingFrame,
        "pieces": PiecesFrame,
        "uses": UsesFrame,
        "idle": host_owner.IdleFrame,
        "history": host_owner.HistoryFrame,
        "entered": host_owner.EnteredFrame,
        "goodbye": host.GoodbyeFrame,
    }
    # The token is added by the bridge.
    fields = {
        name: {each.alias or key for key, each in model.model_fields.items()} - {"type", "token"}
        for name, model in known.items()
    }
    assert {name: {*each} for name, each in theirs.items()} == fields
    told = host.Told("a/1", "a", "failed", "no", {})
    sent = [
        host.welcome("1", [], [], ""),
        host.notice(""),
        host.progress(1, 1, ""),
        host.result(1, {}, "a/1", ""),
        host.call_error(1, ""),
        host.delivery(told),
        host.status(None),
        host.widget(None),
        host_models.find_model(1, "acme", "m1"),
        host_models.stream(1, StreamRequest("acme", "m1", "off", "", (), ())),
        host_models.more(1),
        host_models.abort(1),
        host_owner.read_history(1, []),
        host_owner.enter(1, "kind", {}),
        host.displaced(""),
        host.refused(""),
    ]
    assert ours == {frame["type"]: [name for name in frame if name != "type"] for frame in sent}


def test_numbers_are_those_of_the_program() -> None:
    words = " ".join(PAGE.split())
    assert f"at most {MOST_CALLS} at once" in words
    assert (HELLO_WAIT_S, f"{HELLO_LIMIT_BYTES >> 10} KiB" in words) == (5, True)
    assert f"{FRAME_LIMIT_BYTES >> 20} MiB" in words
    assert (GRACE_S, "go on for a minute" in words) == (60, True)
    assert (PATIENCE_S, "takes nothing for thirty seconds" in words) == (30, True)
    assert all(f"`{goodbye.value}`" in words for goodbye in Goodbye)


def test_files_lie_where_it_says(tmp_path: Path) -> None:
    session = Session.of("s1", {"XDG_STATE_HOME": str(tmp_path)})
    paths = (session.session_file, session.runs, session.host_file, session.log_file, session.lock)
    for path in paths:
        place = str(path.relative_to(tmp_path / "pinata")).replace(session.folder.name, "<digest>")
        assert f"| `{place}" in PAGE


def test_example_of_the_bridge_is_a_conversation() -> None:
    lines = [json.loads(line) for line in Page("commands/pi.md").block("json frames").splitlines()]
    assert [line["type"] for line in lines] == ["hello", "welcome", "call", "result", "goodbye"]
    decode_hello({**lines[0], "token": "t"})
    for line in (lines[2], lines[4]):
        decode_client_frame(line)
