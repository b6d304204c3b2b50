"""Files that go with a message: each is put into it whole, or named in it, and never in part.

What is put in is framed, not fenced off: no name can look like a frame, but contents can. Whoever
reads the message is told what it is by its first line, and not by what stands in it.
"""

import os
import stat
import unicodedata
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import trio

from agents.filetools.secrets import HOLDS_KEYS, identify_secrets
from agents.herdsman.artifacts import artifact_path
from agents.herdsman.config import HerdConfig
from agents.herdsman.controller import Controller
from agents.herdsman.errors import HerdError, busy, invalid
from agents.herdsman.identity import RequestId
from agents.herdsman.owner import OwnerAwayError
from agents.herdsman.premises import Premises
from agents.herdsman.record import Binding
from agents.herdsman.references import Canonical, Semantic, parse_reference, resolve
from agents.herdsman.runtime import Entry
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

# Returns how long a record is in bytes, with this text and these bindings.
Measure = Callable[[str, tuple[Binding, ...]], int]


@dataclass(frozen=True, slots=True)
class Sender:
    """Who sends a message.

    Attributes:
        cwd: what relative paths start from, absolute.
        entries: of the sender's own session; see `OwnerSession.entries`.
    """

    premises: Premises
    cwd: str
    entries: Callable[[], Awaitable[Sequence[Entry]]]

    @classmethod
    def of(cls, controller: Controller) -> "Sender":
        """Return a session that owns agents, as it sends them things."""
        return cls(controller.premises, controller.caller.cwd, controller.owner.entries)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A message as it goes into its record.

    Attributes:
        bindings: what the semantic references in it stand for.
        paths: the real paths of the files that it puts in or names.
    """

    text: str
    bindings: tuple[Binding, ...] = ()
    paths: frozenset[str] = frozenset()


async def prepare_message(
    sender: Sender,
    *,
    heading: str,
    text: str,
    files: Sequence[str],
    config: HerdConfig,
    measure: Measure,
) -> Prepared:
    """Return a message with its files; nothing is changed.

    Without files it is the text as it is. With files there is a section for each, in their order,
    and the text follows under its heading. A file is put in if it is UTF-8 text within the limit
    for files, and the record stays within its own; else it is named.

    Args:
        sender: whose message it is.
        heading: a word: Task, Steer, Interrupt, Reply, Question.
        text: what the sender says itself.
        files: paths and references, as the sender gave them.
        config: with the limits that hold now.
        measure: called in another thread.

    Raises:
        HerdError: INVALID_REQUEST where a file cannot be used, or the record is too long even with
            all files only named; TARGET_NOT_FOUND and TARGET_AMBIGUOUS for a semantic reference
            that the sender's session does not hold, or holds twice; AGENT_BUSY where nobody can
            tell what it holds.
    """
    _check_text(text)
    named = [_parse(given) for given in files]
    entries: Sequence[Entry] = ()
    if any(isinstance(reference, Semantic) for _, reference in named):
        try:
            entries = await sender.entries()
        except OwnerAwayError as error:
            raise busy("the session that the references are from cannot be read now") from error
    found = [_Named(given, *_resolved(reference, entries)) for given, reference in named]
    work = _Composition(heading, text, config, measure)
    return await trio.to_thread.run_sync(work.compose, sender, found)


@dataclass(frozen=True, slots=True)
class _Named:
    """What was asked for.

    Attributes:
        given: as the sender gave it.
        result: whose result it is; None for an ordinary path.
        binding: what travels with it.
    """

    given: str
    result: RequestId | None = None
    binding: Binding | None = None


@dataclass(frozen=True, slots=True)
class _Attachment:
    """A file as it was when it was looked at.

    Attributes:
        name: what the message calls it.
        path: real.
        content: what is put in; None while it is only named.
    """

    asked: _Named
    name: str
    path: str
    device: int
    inode: int
    size_bytes: int
    content: str | None = None

    def is_same(self, found: os.stat_result) -> bool:
        """Return whether it is the file that was looked at, and as long as then."""
        return _place(found) == (self.device, self.inode) and found.st_size == self.size_bytes

    def section(self) -> str:
        """Return what the message says about it."""
        tag = f'<file name="{_attribute(self.name)}" bytes="{self.size_bytes}"'
        if self.content is not None:
            return f"{tag}>\n{self.content}\n</file>"
        if self.asked.result is not None:
            tag += f' path="{_attribute(self.path)}"'
        return f"{tag} />"


@dataclass(frozen=True, slots=True)
class _Composition:
    """Puts a message together; what it does blocks."""

    heading: str
    text: str
    config: HerdConfig
    measure: Measure

    def compose(self, sender: Sender, asked: Iterable[_Named]) -> Prepared:
        """Return the message.

        Raises:
            HerdError: INVALID_REQUEST.
        """
        attached = _distinct(_look(sender, one) for one in asked)
        limit = self.config.mailbox_payload_limit_bytes
        prepared = self._with(attached)
        size = self.measure(prepared.text, prepared.bindings)
        if size > limit:
            raise invalid(
                f"the message makes a record of {size:,} bytes, and {limit:,} bytes are allowed",
                next_action="put the long part into a file, and name that in `files`",
            )
        for index, one in enumerate(attached):
            if one.size_bytes > self.config.inline_attachment_limit_bytes:
                continue
            content = _read(one)
            if content is None:
                continue
            attached[index] = replace(one, content=content)
            fuller = self._with(attached)
            if self.measure(fuller.text, fuller.bindings) <= limit:
                prepared = fuller
            else:
                attached[index] = one
        return prepared

    def _with(self, attached: Sequence[_Attachment]) -> Prepared:
        if not attached:
            return Prepared(self.text)
        sections = [*(one.section() for one in attached), f"{self.heading}:\n{self.text}"]
        bindings = (one.asked.binding for one in attached)
        return Prepared(
            "\n\n".join(sections),
            tuple(binding for binding in bindings if binding is not None),
            frozenset(one.path for one in attached),
        )


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise invalid("the message holds half of a character, which cannot be stored") from error


def _parse(given: str) -> tuple[str, Semantic | Canonical | None]:
    if not given:
        raise invalid("a file has no name")
    return given, parse_reference(given)


def _resolved(
    reference: Semantic | Canonical | None, entries: Sequence[Entry]
) -> tuple[RequestId | None, Binding | None]:
    """Return whose result a reference stands for, and what travels with it."""
    if reference is None:
        return None, None
    if isinstance(reference, Canonical):
        return reference.request, None
    canonical = resolve(reference, entries)
    return canonical.request, Binding(str(reference), str(canonical))


def _look(sender: Sender, asked: _Named) -> _Attachment:
    """Return a file that can be read, with its real path.

    Raises:
        HerdError: INVALID_REQUEST, naming what the sender gave.
    """
    of_result = asked.result is not None
    if asked.result is None:
        path = Path(sender.cwd) / asked.given
    else:
        path = artifact_path(sender.premises, asked.result)
    try:
        real = os.path.realpath(path, strict=True)
        expected = Path(real).lstat()
        if not stat.S_ISREG(expected.st_mode):
            raise _unusable(asked, "it is no regular file", sender.cwd)
        real.encode()
        opened = _opened(real)
    except OSError as error:
        raise _unusable(asked, reason_of(error), sender.cwd) from error
    except ValueError as error:
        reason = "its path is not text that can be passed on"
        raise _unusable(asked, reason, sender.cwd) from error
    try:
        found = os.fstat(opened)
    finally:
        os.close(opened)
    if _place(found) != _place(expected) or not stat.S_ISREG(found.st_mode):
        raise _unusable(asked, "another file took its place meanwhile", sender.cwd)
    # The herd's data lie in Pi's agent directory, beside the keys.
    if _place(found) in identify_secrets(key_files(sender.premises.root.parent)):
        raise _unusable(asked, f"it {HOLDS_KEYS}", sender.cwd)
    name = asked.given if of_result else real
    return _Attachment(asked, name, real, found.st_dev, found.st_ino, found.st_size)


def _read(attachment: _Attachment) -> str | None:
    """Return a file's whole contents; None where they are to be named only.

    Raises:
        HerdError: INVALID_REQUEST, where it can no longer be opened.
    """
    try:
        opened = _opened(attachment.path)
    except OSError as error:
        raise _unusable(attachment.asked, reason_of(error)) from error
    try:
        data = _at_most(opened, attachment.size_bytes + 1)
        if len(data) != attachment.size_bytes or not attachment.is_same(os.fstat(opened)):
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


def _place(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _distinct(attachments: Iterable[_Attachment]) -> list[_Attachment]:
    """Return the first of each file, however it was called."""
    first: dict[str, _Attachment] = {}
    for attachment in attachments:
        first.setdefault(attachment.path, attachment)
    return list(first.values())


def _unusable(asked: _Named, reason: str, cwd: str | None = None) -> HerdError:
    """Return that a file cannot go along; relative paths were looked for from `cwd`."""
    message = f"{quote_value(asked.given)} cannot be attached: {reason}"
    action = _COPY_REFERENCES
    if asked.result is None:
        start = "" if cwd is None or asked.given.startswith("/") else f"; paths start from {cwd}"
        action = f"name a regular file that can be read{start}"
    return invalid(message, next_action=action)


def _attribute(value: str) -> str:
    """Return a value for between double quotes, in which no reader finds the end of one or more."""
    return "".join(
        f"&#x{ord(character):x};"
        if unicodedata.category(character) in _ACTING
        else _ENTITIES.get(character, character)
        for character in value
    )
