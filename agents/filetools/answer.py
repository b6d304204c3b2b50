"""Cutting an answer to what a model can use: whole lines, so many of them and so many bytes.

Whoever cuts says so in the answer and says how to get the rest.
"""

from collections.abc import Iterable
from dataclasses import dataclass

LINE_LIMIT = 2_000
BYTE_LIMIT = 50 * 1024


@dataclass(frozen=True, slots=True)
class Kept:
    """The part of some lines that fits.

    Attributes:
        lines: without line ends.
        complete: nothing was left out.
        cut: not even one whole line fitted, so `lines` is a part of one.
    """

    lines: tuple[str, ...]
    complete: bool
    cut: bool = False

    @property
    def text(self) -> str:
        """The lines as one text, without a line end after the last."""
        return "\n".join(self.lines)


def keep_first(lines: Iterable[str]) -> Kept:
    """Return the first of `lines` that fit; reads no further than the first that does not."""
    kept: list[str] = []
    room = BYTE_LIMIT
    for line in lines:
        room -= len(line.encode()) + 1
        if room < 0 and not kept:
            start = line.encode()[:BYTE_LIMIT].decode(errors="ignore")
            return Kept((start,), complete=False, cut=True)
        if room < 0 or len(kept) == LINE_LIMIT:
            return Kept(tuple(kept), complete=False)
        kept.append(line)
    return Kept(tuple(kept), complete=True)


def keep_last(text: str) -> Kept:
    """Return the last lines of `text` that fit; of a line that alone is too long, its end."""
    lines = text.removesuffix("\n").split("\n") if text else []
    kept = keep_first(reversed(lines))
    if kept.cut:
        end = lines[-1].encode()[-BYTE_LIMIT:].decode(errors="ignore")
        return Kept((end,), complete=False, cut=True)
    return Kept(kept.lines[::-1], complete=kept.complete)


def cut_line(line: str, limit: int) -> str:
    """Return `line`, or its first `limit` characters and a mark that says that it goes on."""
    return line if len(line) <= limit else f"{line[:limit]}... [line cut]"


def with_notes(text: str, notes: Iterable[str]) -> str:
    """Return `text` followed by the `notes` in brackets, so that they cannot pass for content."""
    said = ". ".join(notes)
    if not said:
        return text
    return f"{text}\n\n[{said}]" if text else f"[{said}]"
