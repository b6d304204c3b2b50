"""Writes to stdout and stderr for as long as somebody reads them.

What a command did counts, not who watched it: a reader who leaves, or a full disk behind a
redirection, must neither break a run nor change an exit code. Nothing is buffered, so nothing can
fail, or wait for a reader, when the interpreter ends.
"""

import os
import sys
from typing import TextIO


def write(text: str) -> bool:
    """Write to stdout and return whether that was possible; blocks while its reader is slow."""
    return _write(sys.stdout, text)


def note(line: str) -> None:
    """Write a line to stderr; blocks while its reader is slow."""
    _write(sys.stderr, f"{line}\n")


def _write(stream: TextIO | None, text: str) -> bool:
    if stream is None:
        return False
    # A terminal of a poor encoding shows what it can, and the rest as escapes.
    data = memoryview(text.encode(stream.encoding, "backslashreplace"))
    try:
        while data:
            data = data[os.write(stream.fileno(), data) :]
    except OSError:
        return False
    return True
