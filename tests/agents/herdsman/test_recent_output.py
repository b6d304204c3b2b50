"""The last lines of an agent that has no terminal."""

from hypothesis import given, strategies as st

from agents.herdsman.recent_output import SHOWN_LINES, RecentOutput


def shown_of(*parts: str) -> tuple[str, ...]:
    """Return the lines after an answer that came in these pieces."""
    recent = RecentOutput(str)
    for part in parts:
        recent.piece(part)
    return recent.lines()


def test_an_answer_that_still_grows_is_the_last_line() -> None:
    assert shown_of("one", " line\nan", "other") == ("one line", "another")


def test_whole_texts_begin_lines_of_their_own() -> None:
    recent = RecentOutput(str)
    recent.piece("I run it.")
    recent.block("> bash seq 2")
    recent.block("1\r\n2\n")
    recent.block("")
    recent.piece("Done.")
    recent.end_line()
    recent.end_line()
    recent.piece("More.")
    assert recent.lines() == ("I run it.", "> bash seq 2", "1", "2", "Done.", "More.")


def test_lines_of_stderr_are_shown_as_soon_as_they_are_complete() -> None:
    recent = RecentOutput(str)
    recent.errors("warn: gr\u00fc".encode()[:-1])
    assert recent.lines() == ()
    recent.errors(b"\xbc\n\nnext")
    assert recent.lines() == ("warn: gr\u00fc",)
    recent.errors(b"\xff\n")
    assert recent.lines() == ("warn: gr\u00fc", "next\ufffd")


def test_no_line_acts_on_a_terminal_and_none_is_endless() -> None:
    recent = RecentOutput(lambda line: line.replace("secret", "***"))
    recent.block("\x1b[2J a secret " + "x" * 10_000)
    (line,) = recent.lines()
    assert line.startswith("\\x1b[2J a *** xxx")
    assert line.endswith("…")
    assert len(line) < 600


def test_a_secret_that_comes_in_pieces_is_taken_out_as_well() -> None:
    recent = RecentOutput(lambda line: line.replace("secret", "***"))
    recent.piece("my sec")
    recent.piece("ret is")
    assert recent.lines() == ("my *** is",)


@given(st.lists(st.tuples(st.sampled_from(["piece", "block", "end"]), st.text(max_size=200))))
def test_never_more_lines_than_a_screen_shows(parts: list[tuple[str, str]]) -> None:
    recent = RecentOutput(str)
    for how, text in parts:
        match how:
            case "piece":
                recent.piece(text * 90)
            case "block":
                recent.block(text)
            case _:
                recent.end_line()
    assert len(recent.lines()) <= SHOWN_LINES
