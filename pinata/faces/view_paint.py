"""Turns what a view draws into what is sent to a terminal. Pure: pictures in, text out."""

import io
from collections.abc import Sequence

from rich.console import Console, RenderableType

from pinata.faces.view_screen import BOTTOM_LINES, Picture, Size

# Another screen than the one with the shell's lines, no cursor, and pastes that can be told apart.
# Source: "XTerm Control Sequences", DEC private modes.
ENTER_SCREEN = "\x1b[?1049h\x1b[?25l\x1b[?2004h"
LEAVE_SCREEN = "\x1b[?2004l\x1b[?25h\x1b[?1049l"


def paint(shown: Picture, size: Size) -> list[str]:
    """Return the lines of a picture, as many as the terminal has at most; the bottom stays."""
    room = max(0, size.lines - BOTTOM_LINES)
    body = lines_of(shown.body, size)[:room]
    body += [""] * (room - len(body))
    bottom = [text for each in shown.bottom for text in lines_of(each, size)[:1]]
    return [*body, *bottom][: size.lines]


def lines_of(drawn: RenderableType, size: Size) -> list[str]:
    """Return a renderable as lines, with the sequences that colour them."""
    file = io.StringIO()
    console = Console(
        file=file, force_terminal=True, width=size.columns, height=size.lines, highlight=False
    )
    console.print(drawn)
    return file.getvalue().removesuffix("\n").split("\n")


def change(before: Sequence[str] | None, now: Sequence[str]) -> str:
    """Return what turns a terminal that shows `before` into one that shows `now`.

    Args:
        before: None when it is not known what the terminal shows.
        now: no longer than the terminal.
    """
    known = [] if before is None else before
    # A line is cleared before it is written: one that fills its row keeps the cursor on its last
    # column, which clearing afterwards would take away.
    parts = [
        f"\x1b[{row};1H\x1b[2K{text}"
        for row, text in enumerate(now, 1)
        if row > len(known) or known[row - 1] != text
    ]
    if before is None:
        parts.insert(0, "\x1b[2J")
    elif len(now) < len(known):
        parts.append(f"\x1b[{len(now) + 1};1H\x1b[J")
    return "".join(parts)
