"""The last lines of what a terminal would have shown of an agent that has none."""

import codecs
from collections import deque
from collections.abc import Callable
from typing import Final

from engine.core.quote import escape

SHOWN_LINES: Final = 80
_LINE_CHARS: Final = 500


class RecentOutput:
    """Keeps the last lines, safe to be shown: text of answers, calls, and what they wrote.

    An answer that is still growing is the last line, and what comes in between waits behind it.
    """

    def __init__(self, clean: Callable[[str], str]) -> None:
        """Begin with nothing.

        Args:
            clean: takes out of a line what nobody may see.
        """
        self._clean = clean
        self._lines: deque[str] = deque(maxlen=SHOWN_LINES)
        self._open = ""
        self._errors = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def lines(self) -> tuple[str, ...]:
        """Return the lines, the oldest first."""
        shown = [*self._lines, *([self._shown(self._open)] if self._open else [])]
        return tuple(shown[-SHOWN_LINES:])

    def piece(self, text: str) -> None:
        """Show a piece of an answer."""
        *ended, self._open = (self._open + text).split("\n")
        self._lines.extend(map(self._shown, ended))
        # Nobody needs more of a line that does not end.
        self._open = self._open[: 2 * _LINE_CHARS]

    def end_line(self) -> None:
        """Have what comes next begin a line."""
        if self._open:
            self._lines.append(self._shown(self._open))
            self._open = ""

    def block(self, text: str) -> None:
        """Show text that is complete, on lines of its own."""
        self.end_line()
        whole = text.rstrip("\n")
        if whole:
            self._lines.extend(map(self._shown, whole.split("\n")[-SHOWN_LINES:]))

    def errors(self, data: bytes) -> None:
        """Show what the agent's program wrote to stderr, as soon as a line of it is complete."""
        *ended, self._errors = (self._errors + self._decoder.decode(data)).split("\n")
        self._errors = self._errors[: 2 * _LINE_CHARS]
        self._lines.extend(self._shown(line) for line in ended if line)

    def _shown(self, line: str) -> str:
        # More of it is not shown, and a secret that is cut in two here lies behind what is.
        clean = self._clean(line[: 2 * _LINE_CHARS].removesuffix("\r"))
        return escape(clean if len(clean) <= _LINE_CHARS else clean[:_LINE_CHARS] + "…")
