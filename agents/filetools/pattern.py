"""Searching with a regular expression that a model wrote, in time linear in what is searched.

The expressions are RE2's: no pattern makes the search explode, and one that would take too much
memory is refused when it is compiled. That costs look-around and back-references, which ripgrep
does not have by default either. The alternatives were worse: the standard library's `re` cannot be
interrupted, and a time limit on a backtracking engine turns a hang into a result that depends on
how busy the machine is.
"""

import re
from collections.abc import Iterator
from typing import Protocol

import re2  # type: ignore[import-untyped]  # it has no type information; this module is its only user

from agents.filetools.tool import ToolFaultError

# With these a whole text cannot tell whether one of its lines matches.
_NEEDS_LINES = re.compile(r"\\[Az]|\(\?\w*-")


class _Match(Protocol):
    def start(self) -> int: ...


class _Regexp(Protocol):
    def search(self, text: bytes, pos: int = 0) -> _Match | None: ...
    def fullmatch(self, text: bytes) -> _Match | None: ...


class LinePattern:
    """What grep looks for in each line."""

    def __init__(self, text: str, *, literal: bool, ignore_case: bool) -> None:
        """Compile `text`.

        Raises:
            ToolFaultError: it is no regular expression of RE2's.
        """
        source = re2.escape(text) if literal else text
        self._in_line = compile_expression(source, ignore_case=ignore_case)
        self._in_text: _Regexp | None = None
        if not _NEEDS_LINES.search(source):
            self._in_text = compile_expression("(?m)" + source, ignore_case=ignore_case)

    def matching_lines(self, text: bytes) -> Iterator[int]:
        """Yield the indices of the lines of `text` that match, ascending.

        Lines end with a line feed only; one at the end of the text begins no further line.
        """
        index, at, counted = 0, 0, 0
        while at < len(text):
            if self._in_text is not None:
                found = self._in_text.search(text, at)
                if found is None:
                    return
                at = text.rfind(b"\n", 0, found.start()) + 1
            end = text.find(b"\n", at)
            line = text[at:] if end < 0 else text[at:end]
            # A match in the whole text may reach into the next line, which one in a line must not.
            if at < len(text) and self._in_line.search(line):
                index += text.count(b"\n", counted, at)
                counted = at
                yield index
            at = at + len(line) + 1


def compile_expression(source: str, *, ignore_case: bool = False) -> _Regexp:
    """Return the compiled expression `source`; `.` matches a line feed in it only with `(?s)`.

    Raises:
        ToolFaultError: it is no regular expression of RE2's, or needs too much memory.
    """
    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not ignore_case
    try:
        compiled: _Regexp = re2.compile(source.encode(), options)
    except re2.error as error:
        reason = error.args[0].decode(errors="replace")
        raise ToolFaultError(
            f"the pattern cannot be used: {reason}; the syntax is RE2's, without look-around and "
            "back-references, and 'literal' takes the pattern as plain text"
        ) from None
    return compiled
