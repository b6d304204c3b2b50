"""One file that goes with a message: found, proved to be that one, and read; all of this blocks.

Other processes may change it at any moment: what is read is the file that was found, as long as it
was then, or it is not read at all.
"""

import os
import stat
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agents.filetools.secrets import HOLDS_KEYS, identify_secrets
from agents.herdsman.artifacts import artifact_path
from agents.herdsman.errors import HerdError, invalid
from agents.herdsman.identity import RequestId
from agents.herdsman.premises import Premises
from agents.herdsman.record import Binding
from agents.models.pi_files import key_files
from engine.core.errors import reason_of
from engine.core.quote import quote_value

_OPEN: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY
_COPY_REFERENCES: Final = (
    "references of results cannot be made up: copy one exactly as a result's message shows it"
)
_ENTITIES: Final = {"&": "&amp;", '"': "&quot;", "'": "&apos;", "<": "&lt;", ">": "&gt;"}
# What ends a line for one reader or another, or moves a terminal's cursor.
_ACTING: Final = frozenset({"Cc", "Zl", "Zp"})


@dataclass(frozen=True, slots=True)
class NamedFile:
    """What was asked for.

    Attributes:
        given: as the sender gave it.
        start: what a relative path starts from, absolute.
        result: whose result it is; None for an ordinary path.
        binding: what travels with it.
    """

    given: str
    start: str
    result: RequestId | None = None
    binding: Binding | None = None

    def path(self, premises: Premises) -> Path:
        """Return where it is looked for."""
        if self.result is None:
            return Path(self.start) / self.given
        return artifact_path(premises, self.result)

    def unusable(self, reason: str) -> HerdError:
        """Return that it cannot go along."""
        action = _COPY_REFERENCES
        if self.result is None:
            start = "" if self.given.startswith("/") else f"; paths start from {self.start}"
            action = f"name a regular file that can be read{start}"
        message = f"{quote_value(self.given)} cannot be attached: {reason}"
        return invalid(message, next_action=action)


@dataclass(frozen=True, slots=True)
class AttachedFile:
    """A file as it was when it was found.

    Attributes:
        name: what the message calls it.
        path: real.
        content: what is put in; None while it is only named.
    """

    asked: NamedFile
    name: str
    path: str
    device: int
    inode: int
    size_bytes: int
    content: str | None = None

    def is_same(self, found: os.stat_result) -> bool:
        """Return whether it is the file that was found, and as long as then."""
        return _number(found) == (self.device, self.inode) and found.st_size == self.size_bytes

    def section(self) -> str:
        """Return what the message says about it."""
        tag = f'<file name="{_attribute(self.name)}" bytes="{self.size_bytes}"'
        if self.content is not None:
            return f"{tag}>\n{self.content}\n</file>"
        if self.asked.result is not None:
            tag += f' path="{_attribute(self.path)}"'
        return f"{tag} />"


def find_file(premises: Premises, asked: NamedFile) -> AttachedFile:
    """Return a file that can be read, with its real path.

    Raises:
        HerdError: INVALID_REQUEST, naming what the sender gave.
    """
    try:
        real = os.path.realpath(asked.path(premises), strict=True)
        expected = Path(real).lstat()
        if not stat.S_ISREG(expected.st_mode):
            raise asked.unusable("it is no regular file")
        real.encode()
        opened = _opened(real)
    except OSError as error:
        raise asked.unusable(reason_of(error)) from error
    except ValueError as error:
        raise asked.unusable("its path is not text that can be passed on") from error
    try:
        found = os.fstat(opened)
    finally:
        os.close(opened)
    if _number(found) != _number(expected) or not stat.S_ISREG(found.st_mode):
        raise asked.unusable("another file took its place meanwhile")
    # The herd's data lie in Pi's agent directory, beside the keys.
    if _number(found) in identify_secrets(key_files(premises.root.parent)):
        raise asked.unusable(f"it {HOLDS_KEYS}")
    name = real if asked.result is None else asked.given
    return AttachedFile(asked, name, real, found.st_dev, found.st_ino, found.st_size)


def read_whole(attached: AttachedFile) -> str | None:
    """Return a file's whole contents; None where they are to be named only.

    Raises:
        HerdError: INVALID_REQUEST, where it can no longer be opened.
    """
    try:
        opened = _opened(attached.path)
    except OSError as error:
        raise attached.asked.unusable(reason_of(error)) from error
    try:
        data = _at_most(opened, attached.size_bytes + 1)
        if len(data) != attached.size_bytes or not attached.is_same(os.fstat(opened)):
            return None
    except OSError:
        return None
    finally:
        os.close(opened)
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _opened(path: str) -> int:
    # A pipe that stands there by now would be waited for without O_NONBLOCK, and a link that stands
    # there by now is not what was looked at.
    return os.open(path, _OPEN)


def _at_most(descriptor: int, limit_bytes: int) -> bytes:
    pieces = []
    while limit_bytes and (piece := os.read(descriptor, limit_bytes)):
        pieces.append(piece)
        limit_bytes -= len(piece)
    return b"".join(pieces)


def _number(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _attribute(value: str) -> str:
    """Return a value for between double quotes, in which no reader finds the end of one or more."""
    return "".join(
        f"&#x{ord(character):x};"
        if unicodedata.category(character) in _ACTING
        else _ENTITIES.get(character, character)
        for character in value
    )
