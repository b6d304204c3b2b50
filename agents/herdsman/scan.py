"""One look at all mailboxes of a user, whoever's they are."""

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import trio

from agents.herdsman.findings import DIAGNOSTIC_LIMIT_CHARS, Remembered, Scan
from agents.herdsman.mailbox_folder import MailboxFolder
from agents.herdsman.mailbox_names import ASK_NAME, STATE_NAME, is_folder_name
from agents.herdsman.premises import Premises
from agents.herdsman.record import Contents
from agents.herdsman.record_form import UnreadableRecordError
from agents.herdsman.unreadable import examine
from engine.core.errors import ExternalError, reason_of
from engine.core.quote import one_line
from engine.system.clock import SystemClock

# Longer than the steps in which a file system tells time.
SETTLED_MS: Final = 100


async def scan(premises: Premises) -> Scan:
    """Look into every mailbox, one after the other.

    One whose files look as they did at an earlier look of this process is not read again: to read
    takes several times as long. Whoever changes a mailbox reads it under its lock anyway. All who
    wait for a look share one.

    Raises:
        ExternalError: it cannot be told which ones there are.
    """
    return await premises.scans.get(partial(trio.to_thread.run_sync, _scan, premises))


def _scan(premises: Premises) -> Scan:
    found, unreadable = [], []
    names = _names(premises.mailboxes)
    for name in premises.workspaces.keys() - set(names):
        premises.remembered.pop(name, None)
        premises.workspaces.pop(name, None)
    for name in names:
        folder = MailboxFolder.named(premises, name)
        try:
            contents = _read(premises, folder)
        except UnreadableRecordError as error:
            told = one_line(f"mailbox {name}: {error}", DIAGNOSTIC_LIMIT_CHARS)
            unreadable.append((_touched_ns(folder.path), examine(premises, folder, told)))
        else:
            if contents is not None:
                premises.workspaces[name] = contents.state.of.workspace
                found.append(contents)
    found.sort(key=lambda one: (one.state.of.workspace, one.state.of.label))
    unreadable.sort(key=lambda one: (-one[0], one[1].folder))
    return Scan(tuple(found), tuple(one for _, one in unreadable))


def _read(premises: Premises, folder: MailboxFolder) -> Contents | None:
    """Return what is in a mailbox; see `MailboxFolder.read`."""
    name, stamps = folder.path.name, _stamps(folder)
    known = premises.remembered.get(name)
    if known is not None and known.stamps == stamps:
        return replace(known.contents, is_starting=_is_starting(folder))
    premises.remembered.pop(name, None)
    contents = folder.read()
    if contents is None or stamps is None or contents.has_pending_request:
        return contents
    # A file that changed a moment ago can change again without its times telling.
    is_settled = SystemClock().now_ms() - max(stamps) // 1_000_000 > SETTLED_MS
    if is_settled and _stamps(folder) == stamps:
        premises.remembered[name] = Remembered(stamps, contents)
    return contents


def _stamps(folder: MailboxFolder) -> tuple[int, ...] | None:
    """Return what differs once anything in a mailbox was changed; None without a state.

    Names come and go with the folder's times. The times of change cannot be set by anybody.
    """
    found: list[int] = []
    for name in ("", STATE_NAME, ASK_NAME):
        try:
            seen = os.lstat(folder.path / name)
        except OSError:
            if name != ASK_NAME:
                return None
            found += (0, 0, 0)
        else:
            found += (seen.st_ino, seen.st_size, seen.st_ctime_ns)
    return tuple(found)


def _is_starting(folder: MailboxFolder) -> bool:
    try:
        return folder.is_starting()
    except OSError as error:
        raise UnreadableRecordError(f"it cannot be read: {reason_of(error)}") from error


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
