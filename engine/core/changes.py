"""A change between two trees: paths, what stood there and what stands there now."""

from dataclasses import dataclass
from enum import Enum

from engine.core.ids import BlobId


class ChangeStatus(Enum):
    """What happened to a path; there is no rename detection, so these four are all."""

    ADDED = "A"
    MODIFIED = "M"
    DELETED = "D"
    TYPE_CHANGED = "T"


ABSENT_MODE = "000000"
FILE_MODE = "100644"
EXECUTABLE_MODE = "100755"
SYMLINK_MODE = "120000"
GITLINK_MODE = "160000"


@dataclass(frozen=True, slots=True)
class Change:
    """One changed path.

    Attributes:
        path: bytes relative to the repository's root, as Git stores it.
        old_mode, new_mode: Git's octal modes; `000000` where the path is absent on that side.
        old_blob, new_blob: object ids; all zeros where the path is absent on that side.
    """

    path: bytes
    status: ChangeStatus
    old_mode: str
    new_mode: str
    old_blob: BlobId
    new_blob: BlobId


def quote_path(path: bytes) -> str:
    """Return `path` as text: itself when it is UTF-8, else C-quoted as Git quotes it.

    A UTF-8 path that could be read as a quoted one (it starts with `"`) or that holds a control
    character is quoted too, so that one text stands for one path. Source: git-config(1),
    core.quotePath.
    """
    try:
        text = path.decode("utf-8")
    except UnicodeDecodeError:
        return _c_quoted(path)
    return text if text.isprintable() and not text.startswith('"') else _c_quoted(path)


_ESCAPES = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 34: '"', 92: "\\"}
_UNESCAPES = {letter: code for code, letter in _ESCAPES.items()}


def _c_quoted(path: bytes) -> str:
    out = ['"']
    for byte in path:
        if byte in _ESCAPES:
            out.append("\\" + _ESCAPES[byte])
        elif chr(byte).isascii() and chr(byte).isprintable():
            out.append(chr(byte))
        else:
            out.append(f"\\{byte:03o}")
    out.append('"')
    return "".join(out)


def unquote_path(text: str) -> bytes:
    """Return the bytes that `quote_path` turned into `text`."""
    if not text.startswith('"'):
        return text.encode("utf-8")
    body, out, at = text[1:-1], bytearray(), 0
    while at < len(body):
        if body[at] != "\\":
            out += body[at].encode("utf-8")
            at += 1
        elif body[at + 1] in _UNESCAPES:
            out.append(_UNESCAPES[body[at + 1]])
            at += 2
        else:
            out.append(int(body[at + 1 : at + 4], 8))
            at += 4
    return bytes(out)
