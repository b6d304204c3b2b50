"""Files of agents' sessions as they are made, and as a start that came to nothing leaves them.

They are Pi session files, in Pi's own folder.
"""

import json
import os
from pathlib import Path
from typing import Final

from agents.herdsman.identity import Label, SessionId
from agents.herdsman.runtime import IDENTITY
from agents.herdsman.saved_session import SESSIONS, SUFFIX, open_plainly, read_entries
from agents.session_form import header_line, iso
from engine.core.errors import ExternalError, reason_of
from engine.system import faults
from engine.system.files import replace_file, sync_dir

# What programs note about a session by themselves; nobody has said anything in them.
_BOOKKEEPING: Final = frozenset({"custom", "model_change", "session_info", "thinking_level_change"})


def new_session_path(agent_dir: Path, cwd: str, session: SessionId, now_ms: int) -> Path:
    """Return where Pi would save a new session; links are followed, blocks."""
    folder = cwd.removeprefix("/").replace("/", "-").replace(":", "-")
    moment = iso(now_ms).replace(":", "-").replace(".", "-")
    path = agent_dir / SESSIONS / f"--{folder}--" / f"{moment}_{session}{SUFFIX}"
    return Path(os.path.realpath(path))


def begin_managed_session(
    path: Path, session: SessionId, *, cwd: str, definition: str, label: Label, now_ms: int
) -> None:
    """Make the file of an agent's session, in which nobody has spoken; durable, and blocks.

    Args:
        path: where; its folder is made if need be.
        session: its id, of which no file is there yet.
        cwd: where the agent works.
        definition: name of the agent's definition.
        label: of the agent.
        now_ms: for the times in it.

    Raises:
        ExternalError: it cannot be written; nothing is there.
    """
    header = header_line(session, cwd, now_ms)
    entry = {
        "type": "custom",
        "customType": IDENTITY,
        "data": {"session": session, "definition": definition, "label": label},
        "id": session.rpartition("-")[2][-8:],
        "parentId": None,
        "timestamp": iso(now_ms),
    }
    lines = (json.dumps(line, ensure_ascii=False) + "\n" for line in (header, entry))
    data = "".join(lines).encode("utf-8", "replace")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(path, data, fault="herd.session")
    except OSError as error:
        raise ExternalError(f"{path} cannot be written: {reason_of(error)}") from error


def discard_session(path: Path) -> None:
    """Remove the file of a session that came to nothing, durably; blocks.

    Raises:
        ExternalError: it may be there still.
    """
    try:
        faults.point("herd.session.discarding")
        path.unlink(missing_ok=True)
        sync_dir(path.parent)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ExternalError(f"{path} cannot be removed: {reason_of(error)}") from error


def restore_session(path: Path, size_bytes: int) -> None:
    """Cut off what programs noted in a session since it was `size_bytes` long; blocks.

    If anybody has said something since, all of it stays.

    Raises:
        ExternalError: the file cannot be read or cut.
    """
    try:
        with open(path, "r+b", opener=open_plainly) as file:
            file.seek(size_bytes)
            if any(entry.get("type") not in _BOOKKEEPING for entry in read_entries(file)):
                return
            faults.point("herd.session.restoring")
            file.truncate(size_bytes)
            os.fsync(file.fileno())
    except OSError as error:
        raise ExternalError(f"{path} cannot be restored: {reason_of(error)}") from error
