"""Tests of `agents.herdsman.excerpt`."""

from hypothesis import given, strategies as st

from agents.herdsman.excerpt import last_bytes, without_middle

texts = st.text(max_size=400)


@given(texts, st.integers(0, 500))
def test_the_end_of_a_text_is_whole_characters_within_the_limit(text: str, limit: int) -> None:
    end, was_longer = last_bytes(text, limit)
    assert text.encode("utf-8", "replace").decode().endswith(end)
    assert len(end.encode()) <= limit
    assert was_longer == (len(text.encode("utf-8", "replace")) > limit)
    # No more is lost than the rest of the character that the limit falls into.
    assert not was_longer or len(end.encode()) > limit - 4


@given(st.text(max_size=40).map(lambda text: text * 20), st.integers(128, 600))
def test_a_text_without_its_middle_keeps_both_ends_within_the_limit(text: str, limit: int) -> None:
    short, was_longer = without_middle(text, limit)
    assert len(short.encode()) <= limit
    if not was_longer:
        assert short == text
        return
    head, note, tail = (
        short.partition("\n[... ")[0],
        "bytes left out",
        short.rpartition(" ...]\n")[2],
    )
    assert note in short
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(short.encode()) > limit - 16


def test_the_note_says_how_much_is_left_out() -> None:
    short, _ = without_middle("a" * 1000, 128)
    kept = short.count("a") - "bytes left out".count("a")
    assert f"[... {1000 - kept} bytes left out ...]" in short


def test_half_of_a_surrogate_pair_shows_as_a_question_mark() -> None:
    assert last_bytes("a\ud800b", 10) == ("a?b", False)
    assert without_middle("a\udfffb", 128) == ("a?b", False)
