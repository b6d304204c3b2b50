"""Where a session's host can be found: a file that lies there while it serves."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import trio

from engine.core.errors import ConflictError, CorruptionError
from engine.records.host import HostRecordV1, decode_host, encode_host
from engine.system import files
from pinata.work.blocking import in_thread
from pinata.work.session import Session

LIMIT_BYTES: Final = 64 << 10


@asynccontextmanager
async def published(session: Session, socket: Path, token: str) -> AsyncIterator[bytes]:
    """Let clients find this process inside the block by what is yielded.

    It holds the session's lock.

    Raises:
        ExternalError: the disk is full or broken.
    """
    record = HostRecordV1(session=session.key, socket=str(socket), token=token, pid=os.getpid())
    path, data = session.host_file, encode_host(record)
    await in_thread(
        lambda: files.replace_file(path, data, fault="host.record"),
        "cannot write how to reach the host",
    )
    try:
        yield data
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(_withdraw, path, data)


def _withdraw(path: Path, data: bytes) -> None:
    """Remove a record, unless it is another host's by now: a lock can be taken from its holder."""
    with suppress(OSError, CorruptionError):
        if files.read_regular(path, LIMIT_BYTES) == data:
            path.unlink()


async def find_host(session: Session) -> HostRecordV1 | None:
    """Return how to reach the session's host; None when there was none, or it left in order.

    A host that was killed leaves its record behind.

    Raises:
        ConflictError: the record is another user's.
        CorruptionError: it is no record of a host of this session.
        ExternalError: it cannot be read.
    """
    return await in_thread(lambda: _read(session), "cannot read how to reach the host")


def _read(session: Session) -> HostRecordV1 | None:
    path = session.host_file
    try:
        owner, data = path.lstat().st_uid, files.read_regular(path, LIMIT_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if owner != os.geteuid():
        raise ConflictError(f"{path} belongs to another user; move it away and try again")
    record = decode_host(data, str(path))
    if record.session != session.key:
        raise CorruptionError(f"{path} is the record of another session's host; remove it")
    return record
