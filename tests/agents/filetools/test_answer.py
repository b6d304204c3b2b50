from collections.abc import Iterator

from agents.filetools.answer import BYTE_LIMIT, LINE_LIMIT, Kept, cut_line, keep_first, keep_last


def test_nothing_is_complete() -> None:
    assert keep_first([]) == Kept((), complete=True)
    assert keep_last("") == Kept((), complete=True)


def test_exactly_the_limits_fit() -> None:
    assert keep_first(["x"] * LINE_LIMIT).complete
    assert not keep_first(["x"] * (LINE_LIMIT + 1)).complete
    assert keep_first(["x" * (BYTE_LIMIT - 1)]) == Kept(("x" * (BYTE_LIMIT - 1),), complete=True)
    assert keep_first(["x", "é" * (BYTE_LIMIT // 2)]) == Kept(("x",), complete=False)


def test_lines_after_the_first_that_does_not_fit_are_not_read() -> None:
    def lines() -> Iterator[str]:
        yield "x"
        yield "y" * BYTE_LIMIT
        raise AssertionError

    assert keep_first(lines()) == Kept(("x",), complete=False)


def test_a_line_that_alone_is_too_long_is_cut_between_characters() -> None:
    line = "x" + "é" * BYTE_LIMIT
    first = keep_first([line, "next"])
    assert first == Kept(("x" + "é" * (BYTE_LIMIT // 2 - 1),), complete=False, cut=True)
    last = keep_last("before\n" + line + "y\n")
    assert last == Kept(("é" * (BYTE_LIMIT // 2 - 1) + "y",), complete=False, cut=True)


def test_the_last_lines_keep_their_order() -> None:
    assert keep_last("a\n\nb\n") == Kept(("a", "", "b"), complete=True)


def test_a_cut_line_says_that_it_goes_on() -> None:
    assert cut_line("abc", 3) == "abc"
    assert cut_line("abcd", 3) == "abc... [line cut]"
