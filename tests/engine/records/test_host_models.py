from typing import Any

import pytest

from engine.core.errors import UsageError
from engine.core.spec import Thinking
from engine.records import host_models
from engine.records.host import decode_client_frame
from engine.records.host_models import (
    MOST_PIECES,
    ListingFrame,
    PiecesFrame,
    StreamRequest,
    UsesFrame,
)
from tests.support.jobs import readable

TEXT = {"type": "text", "text": "one"}


def test_what_a_host_asks_has_a_number_of_its_own() -> None:
    asked = StreamRequest("acme", "m1", "high", "be brief", [{"role": "user"}], [{"name": "read"}])
    assert [
        host_models.find_model(1, "acme", "m1"),
        host_models.stream(2, asked),
        host_models.more(2),
        host_models.abort(2),
    ] == [
        {"type": "find_model", "request": 1, "provider": "acme", "model": "m1"},
        {
            "type": "stream",
            "request": 2,
            "provider": "acme",
            "model": "m1",
            "thinking": "high",
            "system": "be brief",
            "messages": [{"role": "user"}],
            "tools": [{"name": "read"}],
        },
        {"type": "more", "request": 2},
        {"type": "abort", "request": 2},
    ]


@pytest.mark.parametrize(
    ("frame", "means"),
    [
        (
            {"type": "model", "request": 1, "contextTokens": 32_000, "hasPrice": True},
            ListingFrame(type="model", request=1, contextTokens=32_000, hasPrice=True),
        ),
        (
            {"type": "model", "request": 1, "fault": "no login"},
            ListingFrame(type="model", request=1, fault="no login"),
        ),
        (
            {"type": "pieces", "request": 2, "pieces": [TEXT]},
            PiecesFrame(type="pieces", request=2, pieces=[TEXT]),
        ),
        (
            {"type": "uses", "provider": "acme", "model": "m1", "thinking": "xhigh"},
            UsesFrame(type="uses", provider="acme", model="m1", thinking=Thinking.XHIGH),
        ),
        # Half of a character is the provider's doing, and no reason to let a session go.
        (
            {"type": "pieces", "request": 2, "pieces": [{"type": "text", "text": "\ud83d"}]},
            PiecesFrame(type="pieces", request=2, pieces=[{"type": "text", "text": "\ud83d"}]),
        ),
    ],
    ids=["model", "no model", "pieces", "uses", "half a character"],
)
def test_answers_of_a_client_are_understood(frame: dict[str, Any], means: object) -> None:
    assert decode_client_frame(frame) == means


@pytest.mark.parametrize(
    ("frame", "says"),
    [
        ({"type": "model", "request": 0}, "model: request"),
        ({"type": "model", "request": 1, "apiKey": "sk"}, 'model: unknown field "apiKey"'),
        ({"type": "uses", "provider": "", "model": "m", "thinking": "off"}, "uses: provider"),
        (
            {"type": "uses", "provider": "a", "model": "m", "thinking": "hard"},
            "uses: thinking",
        ),
        ({"type": "pieces", "request": 1, "pieces": []}, "pieces: pieces"),
        ({"type": "pieces", "request": 1, "pieces": ["text"]}, "pieces: pieces"),
        ({"type": "pieces", "request": 1, "pieces": [TEXT] * (MOST_PIECES + 1)}, "pieces: pieces"),
    ],
    ids=["number", "unknown field", "no name", "thinking", "none", "no object", "too many"],
)
def test_other_answers_are_refused(frame: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        decode_client_frame(frame)
    assert readable(caught.value).startswith(says)
