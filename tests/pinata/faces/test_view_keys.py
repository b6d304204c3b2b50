"""Keys are read from whatever a terminal sends, in whatever pieces."""

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from pinata.faces.view_keys import PASTE_LIMIT_BYTES, Key, KeyDecoder, Named, Pasted, Typed


def keys(*pieces: bytes) -> list[Key]:
    decoder = KeyDecoder()
    found = [key for piece in pieces for key in decoder.feed(piece)]
    return [*found, *decoder.flush()]


@pytest.mark.parametrize(
    ("data", "key"),
    [
        (b"\x1b[A", Named.UP),
        (b"\x1bOA", Named.UP),
        (b"\x1b[B", Named.DOWN),
        (b"\x1b[5~", Named.PAGE_UP),
        (b"\x1b[6~", Named.PAGE_DOWN),
        (b"\x1b[H", Named.HOME),
        (b"\x1bOF", Named.END),
        (b"\r", Named.ENTER),
        (b"\n", Named.ENTER),
        (b"\t", Named.TAB),
        (b"\x7f", Named.BACKSPACE),
        (b"\x15", Named.ERASE_LINE),
        (b"\x17", Named.ERASE_WORD),
        (b"\x0c", Named.REDRAW),
        (b"\x03", Named.INTERRUPT),
        (b"\x1b", Named.ESCAPE),
        (b"q", Typed("q")),
        ("ü".encode(), Typed("ü")),
        ("🎉".encode(), Typed("🎉")),
    ],
)
def test_key_is_known_by_what_it_sends(data: bytes, key: Key) -> None:
    assert keys(data) == [key]
    assert keys(*(bytes([byte]) for byte in data)) == [key]


@pytest.mark.parametrize(
    "data", [b"\x1b[24~", b"\x1b[1;5C", b"\x1b[<0;1;1M", b"\x1bOP", b"\x1b[?1;2c", b"\x00\x01\x0e"]
)
def test_keys_that_mean_nothing_here_are_no_characters(data: bytes) -> None:
    assert keys(data) == []


def test_escape_is_told_from_the_beginning_of_a_key_by_what_follows() -> None:
    decoder = KeyDecoder()
    assert (decoder.feed(b"\x1b"), decoder.is_waiting) == ([], True)
    assert (decoder.flush(), decoder.is_waiting) == ([Named.ESCAPE], False)
    assert decoder.flush() == []
    assert keys(b"\x1bq") == [Named.ESCAPE, Typed("q")]
    assert keys(b"\x1b\x1b[A") == [Named.ESCAPE, Named.UP]
    assert keys(b"\x1b[") == [Named.ESCAPE, Typed("[")]


def test_sequence_without_an_end_holds_nothing_up() -> None:
    assert keys(b"\x1b[" + b"1" * 40, b"A")[0] is Named.ESCAPE


def test_several_keys_in_one_piece_come_in_order() -> None:
    assert keys(b"j\x1b[Ak\r") == [Typed("j"), Named.UP, Typed("k"), Named.ENTER]


def test_paste_is_one_text_and_presses_no_key() -> None:
    assert keys(b"\x1b[200~q\r\nC\x1b[Ay\rz\x1b[201~x") == [Pasted("q\nC\x1b[Ay\nz"), Typed("x")]


@given(st.data())
def test_paste_is_the_same_in_whatever_pieces_it_comes(data: st.DataObject) -> None:
    whole = b"a\x1b[200~" + "grüße\x1b[20".encode() + b"\x1b[201~b"
    cuts = sorted(data.draw(st.sets(st.integers(0, len(whole)))))
    edges = [0, *cuts, len(whole)]
    decoder = KeyDecoder()
    found = [key for start, end in pairwise(edges) for key in decoder.feed(whole[start:end])]
    assert found == [Typed("a"), Pasted("grüße\x1b[20"), Typed("b")]


def test_paste_that_has_not_ended_is_waited_for() -> None:
    decoder = KeyDecoder()
    assert decoder.feed(b"\x1b[200~half") == []
    assert not decoder.is_waiting
    assert decoder.flush() == []
    assert decoder.feed(b" and half\x1b[201~") == [Pasted("half and half")]


def test_paste_of_any_length_is_kept_up_to_a_limit() -> None:
    (pasted,) = keys(b"\x1b[200~", *[b"x" * 50_000] * 5, b"\x1b[201~")
    assert isinstance(pasted, Pasted)
    assert pasted.text == "x" * PASTE_LIMIT_BYTES


@given(st.lists(st.binary(max_size=20), max_size=5))
def test_nothing_that_is_sent_breaks_the_decoder(pieces: list[bytes]) -> None:
    for key in keys(*pieces):
        assert not isinstance(key, Typed) or key.character.isprintable()
