"""One look at all mailboxes of a user, whoever's they are."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trio

from agents.herdsman.mailbox_folder import MailboxFolder, is_folder_name
from agents.herdsman.premises import Premises
from agents.herdsman.record import Contents
from agents.herdsman.records import UnreadableRecordError
from engine.core.errors import ExternalError, reason_of
from engine.core.quote import one_line

DIAGNOSTIC_LIMIT_CHARS: Final = 256
MOST_UNREADABLE: Final = 64


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A mailbox that is there and may be anybody's.

    Attributes:
        folder: its name.
        diagnostic: what is wrong with it, on a line.
    """

    folder: str
    diagnostic: str


@dataclass(frozen=True, slots=True)
class Scan:
    """What one look found.

    Attributes:
        contents: of each mailbox whose state is readable, by workspace and label.
        unreadable: the others, those that were touched last first, and no more than 64.
    """

    contents: tuple[Contents, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()


async def scan(premises: Premises) -> Scan:
    """Look into every mailbox, one after the other.

    Raises:
        ExternalError: it cannot be told which ones there are.
    """
    return await trio.to_thread.run_sync(_scan, premises)


def _scan(premises: Premises) -> Scan:
    found, unreadable = [], []
    for name in _names(premises.mailboxes):
        folder = MailboxFolder.named(premises, name)
        try:
            contents = folder.read()
        except UnreadableRecordError as error:
            told = one_line(f"mailbox {name}: {error}", DIAGNOSTIC_LIMIT_CHARS)
            unreadable.append((_touched_ns(folder.path), Unreadable(name, told)))
        else:
            if contents is not None:
                found.append(contents)
    found.sort(key=lambda one: (one.state.of.workspace, one.state.of.label))
    unreadable.sort(key=lambda one: (-one[0], one[1].folder))
    return Scan(tuple(found), tuple(one for _, one in unreadable[:MOST_UNREADABLE]))


def _names(mailboxes: Path) -> list[str]:
    try:
        return [name for name in os.listdir(mailboxes) if is_folder_name(name)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ExternalError(f"{mailboxes} cannot be read: {reason_of(error)}") from error


def _touched_ns(path: Path) -> int:
    try:
        return os.lstat(path).st_mtime_ns
    except OSError:
        return 0
