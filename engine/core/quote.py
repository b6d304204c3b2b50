"""Values that someone else wrote, as text that is safe and short enough for a sentence."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence

QUOTE_LIMIT_CHARS = 200
_LONGEST_NUMBER_BITS = 512
MOST_NAMES = 10
# About as long as what stands for the middle of a long text.
_MARK_CHARS = 40
# Control characters but line end and tab, what ends a line elsewhere, halves of surrogate pairs,
# and marks that turn the writing direction.
_ACTING = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)


def quote_value(value: object) -> str:
    """Return `value` as JSON shows it, cut after 200 characters of it.

    Never fails and never takes long, however large, deep or odd the value is. What a terminal would
    act on instead of showing it (control characters, halves of surrogate pairs, marks that turn the
    writing direction) is escaped.
    """
    out: list[str] = []
    room = QUOTE_LIMIT_CHARS
    for piece in _pieces(value, QUOTE_LIMIT_CHARS):
        if len(piece) > room:
            out.append(piece[:room] + "…")
            break
        out.append(piece)
        room -= len(piece)
    return "".join(out)


def _pieces(value: object, depth: int) -> Iterator[str]:
    match value:
        case str():
            yield from _text(value)
        case None:
            yield "null"
        case bool():
            yield "true" if value else "false"
        case int() if value.bit_length() > _LONGEST_NUMBER_BITS:
            yield "a number with more digits than fit here"
        case int():
            yield str(value)
        case float():
            yield json.dumps(value)
        case list() if depth:
            yield from _between("[]", (_pieces(item, depth - 1) for item in value))
        case dict() if depth:
            members = (_member(key, item, depth - 1) for key, item in value.items())
            yield from _between("{}", members)
        case list() | dict():
            yield "…"
        case _:
            yield f"a value of type {type(value).__name__}"


def _text(value: str) -> Iterator[str]:
    yield '"'
    for char in value[: QUOTE_LIMIT_CHARS + 1]:
        if char in '"\\':
            yield "\\" + char
        elif char.isprintable():
            yield char
        else:
            yield _escaped(char)
    yield '"'


def _escaped(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join("\\u" + units[at : at + 4] for at in range(0, len(units), 4))


def _member(key: object, item: object, depth: int) -> Iterator[str]:
    yield from _pieces(key, 0)
    yield ": "
    yield from _pieces(item, depth)


def _between(brackets: str, groups: Iterable[Iterator[str]]) -> Iterator[str]:
    yield brackets[0]
    for index, group in enumerate(groups):
        if index:
            yield ", "
        yield from group
    yield brackets[1]


def escape(text: str) -> str:
    """Return `text` with everything but line ends and tabs escaped that a terminal acts upon."""
    return _ACTING.sub(lambda found: _visible(found[0]), text)


def escape_json(text: str) -> str:
    """Return a JSON text that means the same, with what a terminal acts upon written as escapes.

    JSON lets such characters stand as they are in its strings, and nowhere else.
    """
    return _ACTING.sub(lambda found: _escaped(found[0]), text)


def one_line(text: str, limit_chars: int) -> str:
    """Return `text` on one line of at most `limit_chars`, safe on any terminal.

    Takes no longer however large `text` is; a run of white space becomes one blank.
    """
    line = escape(" ".join(text[: 4 * limit_chars].split()))
    return line if len(line) <= limit_chars else line[: limit_chars - 1] + "…"


def middle_out(text: str, limit_chars: int) -> str:
    """Return beginning and end of a text that is longer, and how much is missing between them."""
    if len(text) <= limit_chars:
        return text
    half = max(0, limit_chars // 2 - _MARK_CHARS // 2)
    missing = len(text) - 2 * half
    return f"{text[:half]} [... {missing} characters ...] {text[len(text) - half :]}"


def _visible(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def name_list(names: Sequence[str], *, last: str = "and", most: int = MOST_NAMES) -> str:
    """Return up to `most` of `names` as an English enumeration, and how many more there are."""
    if len(names) > most:
        return ", ".join(names[:most]) + f" {last} {len(names) - most} more"
    if len(names) > 1:
        return ", ".join(names[:-1]) + f" {last} {names[-1]}"
    return "".join(names)
