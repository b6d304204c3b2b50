"""Who called: a session, the runs that it started, and where both are remembered.

A session outlives the programs that speak for it, so whatever one is owed must be found again by
its key alone, whichever repository the run was in.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.core.errors import CorruptionError, UsageError
from engine.core.ids import RunId
from engine.records.session import (
    RECORD_LIMIT_BYTES,
    SessionRecordV1,
    SessionRunV1,
    decode_session,
    encode_record,
)
from engine.system import files
from pinata.work.blocking import in_thread
from pinata.work.places import state_folder

_MOST_KEY_CHARS = 200
_DIGEST_CHARS = 32


@dataclass(frozen=True, slots=True)
class Session:
    """One session.

    Attributes:
        key: opaque, for example the id of a Pi session.
        folder: where everything about it lies; it need not be there.
        lock: held by the session's host; whoever has it delivers, and nobody else.
    """

    key: str
    folder: Path
    lock: Path

    @classmethod
    def of(cls, key: str, environment: Mapping[str, str]) -> "Session":
        """Return the session `key` of the user that `environment` describes.

        Raises:
            UsageError: the key cannot be one, or the environment names no folder for state.
        """
        if not 1 <= len(key) <= _MOST_KEY_CHARS or not key.isprintable():
            raise UsageError(f"a session's key is 1 to {_MOST_KEY_CHARS} printable characters")
        state = state_folder(environment)
        digest = hashlib.sha256(key.encode()).hexdigest()[:_DIGEST_CHARS]
        return cls(key, state / "sessions" / digest, state / "locks" / f"session.{digest}.lock")

    @property
    def session_file(self) -> Path:
        """Says whose folder it is."""
        return self.folder / "session.json"

    @property
    def runs(self) -> Path:
        """Holds an entry for each run that the session started, a file each."""
        return self.folder / "runs"

    @property
    def host_file(self) -> Path:
        """How to reach the session's host while it lives."""
        return self.folder / "host.json"

    @property
    def log_file(self) -> Path:
        """What the session's hosts said."""
        return self.folder / "host.log"

    def run_file(self, run: RunId) -> Path:
        """Return where it says in which repository a run of the session lies."""
        return self.runs / f"{run}.json"


async def prepare_session(session: Session) -> None:
    """Make the session's folders; once is enough, more changes nothing.

    Raises:
        ExternalError: the disk is full or broken.
        PinataError: something else stands where they belong.
    """
    await in_thread(lambda: _prepare(session), "cannot save the session")


async def remember_run(session: Session, run: RunId, common_dir: Path, root: Path) -> None:
    """Make durable that the session started a run; called before the run's own record is written.

    An entry whose run never came to be is dropped by whoever finds it.

    Args:
        session: who started it.
        run: its lock is held by this process.
        common_dir: Git's common folder of the run's repository.
        root: the checkout that the run is started from.

    Raises:
        ExternalError: the disk is full or broken.
        PinataError: something else stands where the entry belongs.
    """
    record = SessionRunV1(run=run, common_dir=str(common_dir), root=str(root))

    def write() -> None:
        _prepare(session)
        data = encode_record(record)
        files.replace_file(session.run_file(run), data, fault="session.run")

    await in_thread(write, "cannot save that the session has a run")


async def forget_run(session: Session, run: RunId) -> None:
    """Remove the entry of a run that never came to be, or that is gone.

    Raises:
        ExternalError: the disk is broken.
    """
    await in_thread(
        lambda: session.run_file(run).unlink(missing_ok=True), "cannot forget a run of the session"
    )


def _prepare(session: Session) -> None:
    if session.session_file.is_file() and session.runs.is_dir():
        _check(session)
        return
    for folder in (session.lock.parent, session.folder, session.runs):
        files.make_private_dir(folder)
    if not session.session_file.exists():
        data = encode_record(SessionRecordV1(key=session.key))
        files.replace_file(session.session_file, data, fault="session.record")
    _check(session)


def _check(session: Session) -> None:
    path = session.session_file
    found = decode_session(files.read_regular(path, RECORD_LIMIT_BYTES), str(path))
    if found.key != session.key:
        raise CorruptionError(f"{path} is the record of another session, {found.key}; remove it")
