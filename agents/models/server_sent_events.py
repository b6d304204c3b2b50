"""Takes the data out of a stream of server-sent events, part by part. Pure.

Source: HTML, section 9.2.6, "Interpreting an event stream". How much one event may hold is the
concern of whoever reads the stream.
"""

import re
from collections.abc import Iterator

_LINE_END = re.compile(rb"\r\n|\n|\r")


class EventDecoder:
    """Decodes one stream; names, ids and pauses of events are left out."""

    def __init__(self) -> None:
        self._line: list[bytes] = []
        self._data: list[bytes] = []

    def feed(self, part: bytes) -> Iterator[bytes]:
        """Yield the data of each event that `part` completes; an event without any is none."""
        text = part
        if self._line and self._line[-1] == b"\r":
            self._line.pop()
            text = b"\r" + part
        held = text.endswith(b"\r")  # the line feed that belongs to it may still come
        *lines, rest = _LINE_END.split(text[:-1] if held else text)
        for line in lines:
            self._line.append(line)
            yield from self._end_line()
        self._line += [rest, b"\r"] if held else [rest]

    def _end_line(self) -> Iterator[bytes]:
        line = b"".join(self._line)
        self._line = []
        if not line:
            data, self._data = b"\n".join(self._data), []
            if data:
                yield data
            return
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
