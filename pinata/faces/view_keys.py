"""What a terminal sends, as keys. Pure: bytes in, keys out; it remembers half of a sequence.

Source: what xterm and those like it send ("XTerm Control Sequences": "PC-Style Function Keys" and
"Bracketed Paste Mode").
"""

import codecs
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto

# Longer than any message that the engine takes, so that it says itself what is too long.
PASTE_LIMIT_BYTES = 128 << 10
# A sequence that is longer than any key's was none.
_SEQUENCE_LIMIT_BYTES = 32
_ESCAPE = 0x1B
_PASTE_BEGINS = b"\x1b[200~"
_PASTE_ENDS = b"\x1b[201~"
# ECMA-48, 5.4: parameters, intermediate bytes, a final byte; and the two-byte kind of the PC keys.
_SEQUENCE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|O[ -~])")
_BEGINNING = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|O)?")


class Named(Enum):
    """A key that stands for no character."""

    UP = auto()
    DOWN = auto()
    PAGE_UP = auto()
    PAGE_DOWN = auto()
    HOME = auto()
    END = auto()
    ENTER = auto()
    ESCAPE = auto()
    TAB = auto()
    BACKSPACE = auto()
    ERASE_WORD = auto()
    ERASE_LINE = auto()
    REDRAW = auto()
    INTERRUPT = auto()


@dataclass(frozen=True, slots=True)
class Typed:
    """One character that can be read."""

    character: str


@dataclass(frozen=True, slots=True)
class Pasted:
    """A text that was pasted: no key in it was pressed, whatever it holds."""

    text: str


Key = Named | Typed | Pasted

_SEQUENCES: Mapping[bytes, Named] = {
    b"[A": Named.UP,
    b"OA": Named.UP,
    b"[B": Named.DOWN,
    b"OB": Named.DOWN,
    b"[5~": Named.PAGE_UP,
    b"[6~": Named.PAGE_DOWN,
    b"[H": Named.HOME,
    b"OH": Named.HOME,
    b"[1~": Named.HOME,
    b"[7~": Named.HOME,
    b"[F": Named.END,
    b"OF": Named.END,
    b"[4~": Named.END,
    b"[8~": Named.END,
    b"[3~": Named.BACKSPACE,
}
_CONTROLS: Mapping[str, Named] = {
    "\x03": Named.INTERRUPT,
    "\x08": Named.BACKSPACE,
    "\x09": Named.TAB,
    "\x0a": Named.ENTER,
    "\x0c": Named.REDRAW,
    "\x0d": Named.ENTER,
    "\x15": Named.ERASE_LINE,
    "\x17": Named.ERASE_WORD,
    "\x7f": Named.BACKSPACE,
}


class KeyDecoder:
    """Turns what a terminal sends into keys, piece by piece."""

    def __init__(self) -> None:
        self._rest = b""
        self._paste: bytearray | None = None
        self._text = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def is_waiting(self) -> bool:
        """Whether what came last may be the beginning of a key, or the escape key itself."""
        return bool(self._rest) and self._paste is None

    def feed(self, data: bytes) -> list[Key]:
        """Return the keys that are whole by now, in order."""
        self._rest += data
        keys: list[Key] = []
        while self._rest:
            found = self._in_paste() if self._paste is not None else self._next()
            if found is None:
                break
            keys += found
        return keys

    def flush(self) -> list[Key]:
        """Return what was held back, once nothing followed: the escape key, or nothing."""
        if not self.is_waiting:
            return []
        held, self._rest = self._rest, b""
        return [Named.ESCAPE, *self._characters(held[1:])]

    def _next(self) -> list[Key] | None:
        """Take the next keys off; None when more must come first."""
        at = self._rest.find(_ESCAPE)
        if at != 0:
            plain = self._rest if at < 0 else self._rest[:at]
            self._rest = self._rest[len(plain) :]
            return list(self._characters(plain))
        if (sequence := _SEQUENCE.match(self._rest)) is not None:
            self._rest = self._rest[sequence.end() :]
            return self._key(sequence[0])
        if _BEGINNING.fullmatch(self._rest) and len(self._rest) <= _SEQUENCE_LIMIT_BYTES:
            return None
        # Escape before anything else is the key itself, or Alt with the key that follows.
        self._rest = self._rest[1:]
        return [Named.ESCAPE]

    def _key(self, sequence: bytes) -> list[Key]:
        if sequence == _PASTE_BEGINS:
            self._paste = bytearray()
            return []
        known = _SEQUENCES.get(sequence[1:])
        return [] if known is None else [known]

    def _in_paste(self) -> list[Key] | None:
        """Take what is pasted off; None when more must come first."""
        assert self._paste is not None
        text, end, after = self._rest.partition(_PASTE_ENDS)
        if not end:
            # The end may have come in part.
            text = text[: max(0, len(text) - len(_PASTE_ENDS) + 1)]
        self._paste += text[: max(0, PASTE_LIMIT_BYTES - len(self._paste))]
        if not end:
            self._rest = self._rest[len(text) :]
            return None
        pasted = self._paste.decode("utf-8", "replace")
        self._rest, self._paste = after, None
        return [Pasted(pasted.replace("\r\n", "\n").replace("\r", "\n"))]

    def _characters(self, data: bytes) -> Iterator[Key]:
        for character in self._text.decode(data):
            if (control := _CONTROLS.get(character)) is not None:
                yield control
            elif character.isprintable():
                yield Typed(character)
