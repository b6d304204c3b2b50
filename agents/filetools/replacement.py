"""Exact replacements in a text, all of them or none, as pure functions.

Line ends are not the model's business: it reads and writes line feeds, and a text that ends its
lines with CR LF keeps doing so. Every byte outside of the replaced texts stays as it is.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

from agents.filetools.arguments import Edit
from agents.filetools.tool import ToolFaultError

_COUNT_LIMIT = 100
_LINES_NAMED = 5


@dataclass(frozen=True, slots=True, order=True)
class _Span:
    """Where an edit goes, in the text with line feeds as its only line ends."""

    start: int
    end: int
    number: int


def replace_texts(original: str, edits: Sequence[Edit], shown: str) -> str:
    """Return `original` with all `edits` made, each where its old text stands in `original`.

    Args:
        original: may hold CR LF, which the edits' texts need not.
        edits: in any order.
        shown: what to call the text in an error message.

    Raises:
        ToolFaultError: an old text does not occur exactly once, two overlap, or nothing would
            change; all that are wrong are named.
    """
    spans = _spans(_with_line_feeds(original), edits, shown)
    shortened = _shortened_at(original)
    out: list[str] = []
    done = 0
    for span in spans:
        # Each CR LF before a place in the shortened text moves it one further on in the original.
        start, end = (at + bisect_left(shortened, at) for at in (span.start, span.end))
        new = _with_line_feeds(edits[span.number].new_text)
        if _uses_crlf(original, start, end):
            new = new.replace("\n", "\r\n")
        out += (original[done:start], new)
        done = end
    changed = "".join(out) + original[done:]
    if changed == original:
        raise ToolFaultError(f"the edits leave {shown} as it is: the new texts equal the old")
    return changed


def _with_line_feeds(text: str) -> str:
    return text.replace("\r\n", "\n")


def _shortened_at(original: str) -> list[int]:
    """Return where in the shortened text the line feeds stand that were CR LF, ascending."""
    places: list[int] = []
    at = original.find("\r\n")
    while at >= 0:
        places.append(at - len(places))
        at = original.find("\r\n", at + 2)
    return places


def _uses_crlf(original: str, start: int, end: int) -> bool:
    """Return whether new lines at this place end with CR LF: as there, else as the text begins."""
    at = original.find("\n", start, end)
    if at < 0:
        at = original.find("\n")
    return at > 0 and original[at - 1] == "\r"


def _spans(text: str, edits: Sequence[Edit], shown: str) -> list[_Span]:
    spans: list[_Span] = []
    faults: list[str] = []
    for number, edit in enumerate(edits):
        old = _with_line_feeds(edit.old_text)
        places = _places(text, old)
        if len(places) == 1:
            spans.append(_Span(places[0], places[0] + len(old), number))
        else:
            faults.append(f"edits[{number}]: {_misfit(text, old, places)}")
    spans.sort()
    for before, after in pairwise(spans):
        if after.start < before.end:
            faults.append(
                f"edits[{before.number}] and edits[{after.number}] overlap: make them one"
            )
    if faults:
        raise ToolFaultError(f"nothing was changed in {shown}: {'; '.join(faults)}")
    return spans


def _places(text: str, old: str) -> list[int]:
    """Return where `old` begins in `text`, ascending, as far as it is of interest."""
    places: list[int] = []
    at = text.find(old) if old else -1
    while at >= 0 and len(places) < _COUNT_LIMIT:
        places.append(at)
        at = text.find(old, at + 1)
    return places


def _misfit(text: str, old: str, places: Sequence[int]) -> str:
    """Return why `old` is no place to edit, and what helps."""
    if not old:
        return "oldText is empty; give the text to replace, or use write for a whole file"
    if places:
        lines = _some(text.count("\n", 0, at) + 1 for at in places)
        times = f"{len(places)} times" if len(places) < _COUNT_LIMIT else "very often"
        return f"oldText occurs {times}, on lines {lines}; add lines around it until it occurs once"
    near = _lines_like(text, old)
    if near:
        return (
            f"oldText was not found; its first line is like line {_some(near)} of the file but for "
            "white space or what follows; read that part and copy it exactly"
        )
    return "oldText was not found; read the file and copy the text exactly, white space included"


def _lines_like(text: str, old: str) -> list[int]:
    """Return the numbers of the lines that equal the first line of `old` but for white space."""
    wanted = old.strip().partition("\n")[0].rstrip()
    lines = enumerate(text.split("\n"), start=1)
    return [number for number, line in lines if wanted and line.strip() == wanted]


def _some(numbers: Iterable[int]) -> str:
    """Return the first few of `numbers` as text, and a sign if there are more."""
    named = [str(number) for number in islice(numbers, _LINES_NAMED + 1)]
    return ", ".join([*named[:_LINES_NAMED], "…"] if len(named) > _LINES_NAMED else named)
