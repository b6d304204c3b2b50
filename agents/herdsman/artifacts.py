"""What outlives an agent's mailbox: the texts of its results, and the numbers they are known by.

Nothing of it is ever removed here, and no number is given twice, whatever becomes of its result.
"""

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trio

from agents.herdsman.errors import broken, invalid
from agents.herdsman.identity import Label, RequestId, SessionId, is_label, is_uuid
from agents.herdsman.premises import Premises
from agents.herdsman.record import State
from agents.herdsman.references import MOST_INDEX
from engine.core.errors import CorruptionError, PinataError, reason_of
from engine.system import faults
from engine.system.files import make_private_dir, read_regular, replace_file, sync_dir

PROVENANCE_PREFIX: Final = "Result of a managed agent: "
# A text that fits into a result, and the line before it.
_LIMIT_BYTES: Final = 8 << 20
_NUMBER: Final = re.compile("[1-9][0-9]{0,15}")


@dataclass(frozen=True, slots=True)
class Provenance:
    """Whose work a result is, for those who read it; it allows nothing.

    Attributes:
        cwd: where the assignment was worked on.
        session: that produced it; None where nobody knows.
    """

    label: Label
    definition: str
    cwd: str
    session: SessionId | None = None

    @classmethod
    def of(cls, state: State) -> "Provenance":
        """Return whose work the results of an agent are."""
        return cls(state.of.label, state.definition, state.cwd, state.session)

    def line(self) -> str:
        """Return it as the first line of the result's text, without the line's end."""
        told = {"agent": self.label, "definition": self.definition, "cwd": self.cwd}
        if self.session is not None:
            told["session"] = self.session
        return PROVENANCE_PREFIX + json.dumps(told)


def artifact_path(premises: Premises, request: RequestId) -> Path:
    """Return where the text of a completed assignment is kept, be it there or not.

    Raises:
        HerdError: INVALID_REQUEST: that is no id, and could lead elsewhere.
    """
    if not is_uuid(request):
        raise invalid("the id of a request must be a full UUID in lower case")
    return premises.results / request


async def save_artifact(
    premises: Premises, request: RequestId, provenance: Provenance, text: str
) -> Path:
    """Keep the text of a completed assignment for ever; return where.

    The same again changes nothing.

    Args:
        premises: where.
        request: of the task.
        provenance: whose work it is.
        text: what the agent said, which is kept as it is.

    Raises:
        HerdError: INTERNAL_FAILURE: it cannot be kept, or another text is kept by this name.
            INVALID_REQUEST: the text holds half of a character.
    """
    path = artifact_path(premises, request)
    try:
        data = f"{provenance.line()}\n\n{text}".encode()
    except UnicodeEncodeError as error:
        raise invalid("the result holds half of a character, which cannot be stored") from error
    try:
        await trio.to_thread.run_sync(_save, path, data)
    except PinataError as error:
        raise broken(f"the result cannot be kept: {error}") from error
    except OSError as error:
        raise broken(f"the result cannot be kept: {reason_of(error)}") from error
    return path


async def reserve_index(premises: Premises, label: Label, at_least: int = 1) -> int:
    """Return a number for a result of a label, that no other one has had or will have.

    Args:
        premises: where; all of a user's projects count together.
        label: of the agent.
        at_least: from 1; above all that are known from elsewhere.

    Raises:
        HerdError: INTERNAL_FAILURE: none can be reserved.
    """
    assert is_label(label)
    folder = premises.reservations / label
    try:
        return await trio.to_thread.run_sync(_reserve, folder, max(1, at_least))
    except PinataError as error:
        raise broken(f"no number can be reserved for a result: {error}") from error
    except OSError as error:
        reason = reason_of(error)
        raise broken(f"no number can be reserved for a result: {reason}") from error


def _save(path: Path, data: bytes) -> None:
    make_private_dir(path.parent)
    try:
        kept = read_regular(path, max(_LIMIT_BYTES, len(data)))
    except FileNotFoundError:
        replace_file(path, data, fault="herd.artifact")
        return
    if kept != data:
        raise CorruptionError(f"{path} holds another text")
    # It may be there and not durable yet: a crash can have come in between.
    path.chmod(0o600)
    sync_dir(path.parent)


def _reserve(folder: Path, at_least: int) -> int:
    make_private_dir(folder)
    used = (int(name) for name in os.listdir(folder) if _is_number(name))
    index = max(at_least, 1 + max(used, default=0))
    while index <= MOST_INDEX:
        try:
            descriptor = os.open(folder / str(index), os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            index += 1
            continue
        try:
            faults.point("herd.reservation.made")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        sync_dir(folder)
        faults.point("herd.reservation.durable")
        return index
    raise CorruptionError(f"{folder} has no numbers left")


def _is_number(name: str) -> bool:
    return _NUMBER.fullmatch(name) is not None and int(name) <= MOST_INDEX
