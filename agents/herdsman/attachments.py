"""Files that go with a message: each is put into it whole, or named in it, and never in part.

What is put in is framed, not fenced off: no name can look like a frame, but contents can. Whoever
reads the message is told what it is by its first line, and not by what stands in it.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import trio

from agents.herdsman.attached_file import AttachedFile, NamedFile, find_file, read_whole
from agents.herdsman.config import HerdConfig
from agents.herdsman.controller import Controller
from agents.herdsman.errors import busy, invalid
from agents.herdsman.identity import RequestId
from agents.herdsman.owner import OwnerAwayError
from agents.herdsman.premises import Premises
from agents.herdsman.record import Binding
from agents.herdsman.references import Canonical, Semantic, parse_reference, resolve
from agents.herdsman.runtime import Entry

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
    found = [
        NamedFile(given, sender.cwd, *_resolved(reference, entries)) for given, reference in named
    ]
    work = _Composition(heading, text, config, measure)
    return await trio.to_thread.run_sync(work.compose, sender.premises, found)


@dataclass(frozen=True, slots=True)
class _Composition:
    """Puts a message together; what it does blocks."""

    heading: str
    text: str
    config: HerdConfig
    measure: Measure

    def compose(self, premises: Premises, asked: Iterable[NamedFile]) -> Prepared:
        """Return the message.

        Raises:
            HerdError: INVALID_REQUEST.
        """
        attached = _distinct(find_file(premises, one) for one in asked)
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
            content = read_whole(one)
            if content is None:
                continue
            attached[index] = replace(one, content=content)
            fuller = self._with(attached)
            if self.measure(fuller.text, fuller.bindings) <= limit:
                prepared = fuller
            else:
                attached[index] = one
        return prepared

    def _with(self, attached: Sequence[AttachedFile]) -> Prepared:
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


def _distinct(attachments: Iterable[AttachedFile]) -> list[AttachedFile]:
    """Return the first of each file, however it was called."""
    first: dict[str, AttachedFile] = {}
    for attachment in attachments:
        first.setdefault(attachment.path, attachment)
    return list(first.values())
