from collections.abc import Iterable

import pytest
from hypothesis import given, strategies as st

from agents.models.server_sent_events import EventDecoder


def data_of(parts: Iterable[bytes]) -> list[bytes]:
    decoder = EventDecoder()
    return [data for part in parts for data in decoder.feed(part)]


@pytest.mark.parametrize(
    ("stream", "data"),
    [
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data:a\r\n\r\ndata:  b\r\n\r\n", [b"a", b" b"]),
        (b"data: a\rdata: b\r\r\n", [b"a\nb"]),
        (b"data: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n", [b"a\nb", b"c"]),
        (b": nothing\n\nevent: x\n\ndata\n\ndata:\n\n", []),
        (b"event: x\nid: 1\nretry: 2\ndata: a\nodd: y\n\n", [b"a"]),
        (b"data: a\n\ndata: never ended\n", [b"a"]),
        (b"\n\n\r\n", []),
        (b"", []),
    ],
)
def test_data_is_taken_out_of_a_stream(stream: bytes, data: list[bytes]) -> None:
    assert data_of([stream]) == data
    assert data_of(stream[place : place + 1] for place in range(len(stream))) == data


@given(st.lists(st.sampled_from([b"data: a", b"\n", b"\r", b"\r\n", b": c", b"data:"])), st.data())
def test_it_does_not_matter_where_a_stream_is_cut(pieces: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)))))
    ends = [*cuts, len(stream)]
    parts = [stream[start:end] for start, end in zip([0, *cuts], ends, strict=True)]
    assert data_of(parts) == data_of([stream])
