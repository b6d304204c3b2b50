"""The edit tool: exact replacements in one file, all of them or none.

Line ends are not the model's business: it reads and writes line feeds, and a file that ends its
lines with CR LF keeps doing so. Every byte outside of the replaced texts stays as it is.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import trio

from agents.filetools.arguments import Edit, EditArguments
from agents.filetools.resolve import locate_target
from agents.filetools.target import open_target
from agents.filetools.tool import ToolAnswer, ToolContext, ToolFaultError, build

SIZE_LIMIT_BYTES = 16 << 20
_COUNT_LIMIT = 100
_LINES_NAMED = 5


async def _edit(context: ToolContext, arguments: EditArguments) -> ToolAnswer:
    return await trio.to_thread.run_sync(_change, context, arguments)


def _change(context: ToolContext, arguments: EditArguments) -> ToolAnswer:
    shown = arguments.path
    place = locate_target(shown, context.root, context.home)
    with open_target(place, shown, create_parents=False) as target:
        if target.permissions is None:
            raise ToolFaultError(f"there is no '{shown}'; write makes new files")
        target.replace(_edited(target.read(SIZE_LIMIT_BYTES), arguments.edits, shown))
    count = len(arguments.edits)
    return ToolAnswer(f"replaced {count} text{'s' if count > 1 else ''} in {shown}")


@dataclass(frozen=True, slots=True, order=True)
class _Span:
    """Where in the text, with line feeds as its line ends, which edit goes."""

    start: int
    end: int
    number: int


def _edited(data: bytes, edits: Sequence[Edit], shown: str) -> bytes:
    """Return `data` with all `edits` made.

    Raises:
        ToolFaultError: one of them cannot be made; all that are wrong are named.
    """
    try:
        original = data.decode()
    except UnicodeDecodeError:
        raise ToolFaultError(f"'{shown}' is not UTF-8 text, which edit needs; use bash") from None
    text = original.replace("\r\n", "\n")
    spans = _spans(text, edits, shown)
    # The n-th line feed that a CR LF became stands n characters further on in the original.
    shortened = _shortened_at(original)
    out: list[str] = []
    done = 0
    for span in spans:
        start, end = (at + bisect_left(shortened, at) for at in (span.start, span.end))
        out.append(original[done:start])
        new = _unix(edits[span.number].new_text)
        out.append(new.replace("\n", "\r\n") if _uses_crlf(original, start, end) else new)
        done = end
    out.append(original[done:])
    changed = "".join(out)
    if changed == original:
        raise ToolFaultError(f"the edits leave '{shown}' as it is: the new texts equal the old")
    return changed.encode()


def _unix(text: str) -> str:
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
    """Return whether new lines at this place end with CR LF: as there, else as the file begins."""
    at = original.find("\n", start, end)
    if at < 0:
        at = original.find("\n")
    return at > 0 and original[at - 1] == "\r"


def _spans(text: str, edits: Sequence[Edit], shown: str) -> list[_Span]:
    spans: list[_Span] = []
    faults: list[str] = []
    for number, edit in enumerate(edits):
        old = _unix(edit.old_text)
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
        raise ToolFaultError(f"nothing was changed in '{shown}': {'; '.join(faults)}")
    return spans


def _places(text: str, old: str) -> list[int]:
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
        lines = ", ".join(str(text.count("\n", 0, at) + 1) for at in places[:_LINES_NAMED])
        lines += ", …" if len(places) > _LINES_NAMED else ""
        times = f"{len(places)} times" if len(places) < _COUNT_LIMIT else "very often"
        return f"oldText occurs {times}, on lines {lines}; add lines around it until it occurs once"
    wanted = next(
        line.strip() for line in [*old.split("\n"), ""] if line.strip() or not old.strip()
    )
    near = [
        str(number)
        for number, line in enumerate(text.split("\n"), start=1)
        if wanted and line.strip() == wanted
    ]
    if near:
        return (
            f"oldText was not found; its first line is like line {', '.join(near[:_LINES_NAMED])} "
            "of the file but for white space or what follows; read that part and copy it exactly"
        )
    return "oldText was not found; read the file and copy the text exactly, white space included"


EDIT = build(
    _edit,
    "edit",
    description="Replace texts in one file. Each oldText must occur exactly once in the file as it "
    "is now, and the places must not overlap; either all replacements are made or none. Put all "
    "changes to one file into one call, and keep each oldText as short as is unambiguous.",
    arguments=EditArguments,
)
