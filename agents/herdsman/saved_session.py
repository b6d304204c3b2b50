"""Saved sessions of managed agents: which one somebody means, and what its file says of itself.

What makes a session an agent's is an entry that names it, its definition and its label; a copy
under another id is nobody's.
"""

import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Final

from agents.herdsman.birth import SavedSession
from agents.herdsman.errors import HerdError, ambiguous, invalid
from agents.herdsman.identity import Label, RequestId, SessionId, is_label, is_uuid
from agents.herdsman.runtime import IDENTITY, REQUEST, RETIRED
from agents.session_form import VERSION, decode_line
from engine.core.errors import ExternalError, reason_of
from engine.core.quote import quote_value
from engine.core.spec import ModelChoice, Thinking

SUFFIX: Final = ".jsonl"
SESSIONS: Final = "sessions"
_LONGEST_LINE_BYTES: Final = 64 << 20
_OPEN: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_LEVELS: Final = {level.value: level for level in Thinking}
_FIND_IT: Final = "give the exact path or the full id that the agent's result told"

Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ManagedSession:
    """What the file of an agent's session says.

    Attributes:
        is_retired: its context is full; whoever goes on with the work begins a new session.
        size_bytes: how long the file is.
        entered_ms: when each request of its owners entered it, by the clock of its agent.
    """

    saved: SavedSession
    is_retired: bool
    size_bytes: int
    entered_ms: Mapping[RequestId, int] = field(default_factory=dict)


def same_session_file(one: str, other: str) -> bool:
    """Return whether two paths lead to the same file, which is there; blocks.

    Equal texts do, whether or not there is one.

    Raises:
        ExternalError: that cannot be told.
    """
    if one == other:
        return True
    try:
        return os.path.realpath(one, strict=True) == os.path.realpath(other, strict=True)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise ExternalError(f"{one} and {other} cannot be compared: {reason_of(error)}") from error


def find_session(given: str, *, agent_dir: Path | None, home: Path | None, cwd: str) -> Path:
    """Return the real path of the session file that somebody names; blocks.

    Args:
        given: a path, or the full id of a session that lies where Pi saves them.
        agent_dir: the Pi agent directory; None where nobody knows.
        home: what `~` stands for; None where nobody knows.
        cwd: what relative paths start from.

    Raises:
        HerdError: there is none (INVALID_REQUEST), or there are several (TARGET_AMBIGUOUS).
    """
    named = given.strip()
    if "/" in named or named.startswith("~") or named.endswith(SUFFIX):
        found = [_expanded(named, home, cwd)]
    elif is_uuid(named):
        found = [] if agent_dir is None else list(_with_id(agent_dir / SESSIONS, named))
    else:
        raise invalid(
            f"{quote_value(named)} is neither the path nor the full id of a session",
            next_action=_FIND_IT,
        )
    try:
        real = {os.path.realpath(path, strict=True) for path in found}
    except (OSError, ValueError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else "no file can be called so"
        raise invalid(
            f"the session {quote_value(named)} cannot be opened: {reason}", next_action=_FIND_IT
        ) from error
    if len(real) > 1:
        raise ambiguous(
            f"there are {len(real)} files of the session {named}",
            next_action="give the exact path of one of them",
        )
    if not real:
        raise invalid(f"there is no saved session {named}", next_action=_FIND_IT)
    return Path(real.pop())


def read_managed_session(path: Path) -> ManagedSession:
    """Return what an agent's session says of itself; blocks.

    Args:
        path: of the file, real.

    Raises:
        HerdError: INVALID_REQUEST: it cannot be read, or is not the session of an agent.
    """
    try:
        with open(path, "rb", opener=open_plainly) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise _unusable(path, "it is no regular file")
            entries = read_entries(file)
            header = next(entries, {})
            session, cwd = _header(path, header)
            history = _History(session)
            for entry in entries:
                history.take(entry)
            size_bytes = file.tell()
    except OSError as error:
        raise _unusable(path, reason_of(error)) from error
    definition, label = history.identity(path)
    saved = SavedSession(session, path, cwd, definition, label, history.model())
    return ManagedSession(saved, history.is_retired, size_bytes, history.entered_ms)


@dataclass(slots=True)
class _History:
    """What the entries of a session say of it, one after the other.

    Attributes:
        parents: the entry before each one.
        settings: the entries that say what the session is led with.
        leaf: the entry with which it goes on.
        entered_ms: when each request entered it.
    """

    session: SessionId
    is_retired: bool = False
    identities: list[Fields] = field(default_factory=list)
    parents: dict[str, object] = field(default_factory=dict)
    settings: dict[str, Fields] = field(default_factory=dict)
    leaf: object = None
    entered_ms: dict[RequestId, int] = field(default_factory=dict)

    def take(self, entry: Fields) -> None:
        """Heed the next entry."""
        data, is_custom = entry.get("data"), entry.get("type") == "custom"
        # What names other sessions came with a copied history.
        if is_custom and isinstance(data, dict) and data.get("session") == self.session:
            self.is_retired |= entry.get("customType") == RETIRED
            if entry.get("customType") == IDENTITY:
                self.identities.append(data)
        if entry.get("type") == "custom_message" and entry.get("customType") == REQUEST:
            self._enter(entry)
        name = entry.get("id")
        if not isinstance(name, str):
            return
        self.leaf, self.parents[name] = name, entry.get("parentId")
        stated = _setting(entry)
        if stated:
            self.settings[name] = stated

    def _enter(self, entry: Fields) -> None:
        """Heed a request; one without a time that can be read is passed over."""
        details, told = entry.get("details"), entry.get("timestamp")
        if not (isinstance(details, dict) and isinstance(told, str)):
            return
        request = details.get("request")
        if isinstance(request, str):
            with suppress(ValueError, OverflowError):
                at_ms = round(datetime.fromisoformat(told).timestamp() * 1000)
                self.entered_ms.setdefault(RequestId(request), at_ms)

    def identity(self, path: Path) -> tuple[str, Label]:
        """Return the names of the session's definition and of its agent.

        Raises:
            HerdError: INVALID_REQUEST: they are not told, or not clearly.
        """
        told = {json.dumps(each, sort_keys=True): each for each in self.identities}
        if not told:
            raise _unusable(path, "it is not the session of a managed agent")
        if len(told) > 1:
            raise _unusable(path, "it says two things about whose session it is")
        (only,) = told.values()
        definition, label = only.get("definition"), only.get("label")
        if not (isinstance(definition, str) and definition.strip() and _is_text(definition)):
            raise _unusable(path, "it does not name its definition")
        if not (isinstance(label, str) and is_label(label)):
            raise _unusable(path, "it does not name its agent")
        return definition, Label(label)

    def model(self) -> ModelChoice | None:
        """Return what the session was led with last; None where it does not tell a model."""
        found: dict[str, Any] = {}
        at, unseen = self.leaf, len(self.parents)
        while isinstance(at, str) and unseen:
            found = {**self.settings.get(at, {}), **found}
            at, unseen = self.parents.get(at), unseen - 1
        if "id" not in found:
            return None
        thinking = _LEVELS.get(found.get("thinking", ""), Thinking.OFF)
        return ModelChoice(found["provider"], found["id"], thinking)


def _setting(entry: Fields) -> Fields:
    """Return what an entry says about the model and about how much it thinks."""
    kind, message = entry.get("type"), entry.get("message")
    provider: object = None
    model: object = None
    if kind == "thinking_level_change":
        level = entry.get("thinkingLevel")
        return {"thinking": level} if isinstance(level, str) else {}
    if kind == "model_change":
        provider, model = entry.get("provider"), entry.get("modelId")
    elif kind == "message" and isinstance(message, dict) and message.get("role") == "assistant":
        provider, model = message.get("provider"), message.get("model")
    if isinstance(provider, str) and isinstance(model, str) and provider and model:
        return {"provider": provider, "id": model}
    return {}


def _header(path: Path, header: Fields) -> tuple[SessionId, str]:
    """Return the id of a session and where its agent works.

    Raises:
        HerdError: INVALID_REQUEST: it does not begin as the session of an agent does.
    """
    session, cwd, version = header.get("id"), header.get("cwd"), header.get("version")
    if header.get("type") != "session" or not isinstance(session, str):
        raise _unusable(path, "it is no session file")
    if version != VERSION:
        raise _unusable(path, f"its version is {quote_value(version)}, and not {VERSION}")
    if not is_uuid(session):
        raise _unusable(path, "it is not the session of a managed agent")
    if not (isinstance(cwd, str) and cwd.strip()):
        raise _unusable(path, "it does not tell where its agent worked")
    if not _is_text(cwd):
        raise _unusable(path, "no directory can be called as the one in which its agent worked")
    return SessionId(session), cwd


def _is_text(value: str) -> bool:
    """Return whether files can be called so: JSON may escape what is no character, and NUL."""
    return "\0" not in value and not any("\ud800" <= char <= "\udfff" for char in value)


def read_entries(file: BinaryIO) -> Iterator[dict[str, Any]]:
    """Yield the lines of a session; one that is torn, or no object, is passed over, as by Pi."""
    while line := file.readline(_LONGEST_LINE_BYTES):
        entry = decode_line(line)
        if entry is not None:
            yield entry


def _with_id(sessions: Path, session: str) -> Iterator[Path]:
    try:
        for folder in _listed(sessions):
            for path in _listed(folder):
                if path.name == session + SUFFIX or path.name.endswith(f"_{session}{SUFFIX}"):
                    yield path
    except OSError as error:
        raise invalid(f"{sessions} cannot be read: {reason_of(error)}") from error


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _expanded(named: str, home: Path | None, cwd: str) -> Path:
    if named != "~" and not named.startswith("~/"):
        return Path(cwd, named)
    if home is None:
        raise invalid("there is no home directory that ~ could stand for", next_action=_FIND_IT)
    return home / named[2:]


def _unusable(path: Path, reason: str) -> HerdError:
    return invalid(
        f"{path} cannot be continued: {reason}", next_action="delegate to a fresh agent instead"
    )


def open_plainly(path: str, flags: int) -> int:
    """Open a file for `open`, also where it may be none; see `os.open`."""
    # Without O_NONBLOCK, opening a pipe would wait for a writer for ever.
    return os.open(path, flags | _OPEN)
