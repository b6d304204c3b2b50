import pytest

from agents.session_form import decode_line


def test_line_of_a_session_is_the_object_that_it_holds() -> None:
    assert decode_line(b'{"type": "custom", "id": "a"}\n') == {"type": "custom", "id": "a"}


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b'{"type": "cus', id="torn"),
        pytest.param(b'["custom"]', id="no object"),
        pytest.param(b'{"a": "\xff"}', id="no text"),
        pytest.param(b"[" * 100_000, id="too deep"),
    ],
)
def test_line_that_no_session_can_hold_is_nothing(line: bytes) -> None:
    assert decode_line(line) is None
