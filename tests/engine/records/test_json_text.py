import json

import pytest
from hypothesis import given, strategies as st

from engine.records.json_text import decode_json
from engine.records.request import RequestError


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "line 1, column 1 is not JSON: expecting value"),
        (b'{"a": 1,\n "b": }', "line 2, column 7 is not JSON: expecting value"),
        (b"[1] 2", "line 1, column 5 is not JSON: extra data"),
        (b'{"a": {"b": 1, "c": 2, "b": 3}}', '"b" stands twice in one object'),
        (b'{"a": NaN}', "NaN is not a number that JSON knows"),
        (b"[-Infinity]", "-Infinity is not a number that JSON knows"),
        (b'"\xff"', "byte 1 is not UTF-8 text"),
        (b"[" * 1_000_000, "arrays and objects are nested too deeply"),
        (b"9" * 5_000, "a number has too many digits"),
    ],
    ids=range(9),
)
def test_what_is_no_plain_json_is_refused(content: bytes, fault: str) -> None:
    with pytest.raises(RequestError) as caught:
        decode_json(content, "job.json")
    assert str(caught.value) == f"job.json: {fault}"


def test_a_byte_order_mark_does_no_harm() -> None:
    assert decode_json(b'\xef\xbb\xbf{"a": 1}', "job.json") == {"a": 1}


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(values)
def test_any_value_is_read_as_it_was_written(value: object) -> None:
    assert decode_json(json.dumps(value).encode(), "job.json") == value
