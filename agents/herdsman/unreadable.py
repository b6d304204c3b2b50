"""What can still be told of a mailbox whose state cannot be read, and no more than is proved.

The name of its folder is a digest of a workspace and a label. Whatever names these two is right if
they give that name, however damaged the rest of it may be. Whom the agent works for is believed
only of records that are whole, and only if all that there are say the same: a mailbox is emptied
before another agent has it.
"""

from collections.abc import Iterator
from typing import Final

from agents.herdsman.findings import Unreadable
from agents.herdsman.identity import Correlation, Label, SessionId
from agents.herdsman.mailbox_folder import MailboxFolder
from agents.herdsman.mailbox_names import ASK_NAME, STATE_NAME, folder_name, is_request, is_result
from agents.herdsman.premises import Premises
from agents.herdsman.record import Ask, Request, Result
from agents.herdsman.record_form import ASK, REQUEST, RESULT, Form
from engine.core.errors import PinataError
from engine.records.json_text import decode_json
from engine.system import files

# Nothing is looked for in a mailbox with more than an agent ever has, or in longer files.
_MOST_FILES: Final = 32
_LIMIT_BYTES: Final = 1 << 20


def examine(premises: Premises, folder: MailboxFolder, diagnostic: str) -> Unreadable:
    """Return what is known of a mailbox that cannot be read; blocks.

    Args:
        premises: what this process remembers.
        folder: the mailbox's.
        diagnostic: what is wrong with it.
    """
    name = folder.path.name
    try:
        told = [_told(folder, each) for each in _names(folder)]
    except (OSError, PinataError):
        told = []
    named = (_workspace(name, data) for _, data in told)
    workspace = premises.workspaces.get(name) or next(filter(None, named), None)
    return Unreadable(name, diagnostic, workspace, _owner(name, told))


def _names(folder: MailboxFolder) -> list[str]:
    names = [name for name in folder.names() if name == STATE_NAME or _form(name) is not None]
    return names if len(names) <= _MOST_FILES else []


def _form(name: str) -> Form[Ask] | Form[Request] | Form[Result] | None:
    """Return the form of the record in a file beside the state; None for any other file."""
    if name == ASK_NAME:
        return ASK
    if is_request(name):
        return REQUEST
    return RESULT if is_result(name) else None


def _told(folder: MailboxFolder, name: str) -> tuple[str, bytes]:
    """Return a file's name and what is in it; nothing where that cannot be read."""
    try:
        return name, files.read_regular(folder.path / name, _LIMIT_BYTES)
    except (OSError, PinataError):
        return name, b""


def _workspace(folder: str, data: bytes) -> str | None:
    """Return the workspace that a file names, if the folder's name proves it."""
    try:
        match decode_json(data, folder):
            case {"of": {"workspace": str(workspace), "label": str(label)}}:
                is_proved = folder_name(workspace, Label(label)) == folder
                return workspace if is_proved else None
    except (PinataError, ValueError, RecursionError):
        pass
    return None


def _owner(folder: str, told: list[tuple[str, bytes]]) -> SessionId | None:
    """Return whom the agent works for, if the records beside its state prove it."""
    try:
        said = set(_correlations(told))
    except PinataError:
        return None
    if len(said) != 1:
        return None
    of = said.pop()
    return of.owner if folder_name(of.workspace, of.label) == folder else None


def _correlations(told: list[tuple[str, bytes]]) -> Iterator[Correlation]:
    """Yield whose the records beside a state are.

    Raises:
        UnreadableRecordError: one of them does not tell.
    """
    for name, data in told:
        form = _form(name)
        if form is not None:
            yield form.decode(data).of
