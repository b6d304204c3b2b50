"""Sockets of this machine that only this user can reach.

What keeps others out is the folder (0700) and the socket's own mode (0600): the kernel lets nobody
else connect, so there are no credentials to look at afterwards.
"""

import contextlib
import errno
import os
import shutil
import socket
import stat
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import trio

from engine.core.errors import ConflictError, ExternalError, reason_of
from engine.system import files

# The kernel takes 107 bytes; other systems take a few less.
PATH_LIMIT_BYTES = 100
_PREFIX = "pinata-"
_BACKLOG = 128
# A listener whose queue is full says so at once instead of having the caller wait.
_FULL_QUEUE_PAUSE_S = 0.02


class NobodyListensError(ConflictError):
    """No live process listens at a socket; there may be a file that a dead one left."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(f"nobody listens at {path}")


@dataclass(frozen=True, slots=True)
class Listener:
    """A socket that takes connections; `path` is where."""

    path: Path
    listener: trio.SocketListener


@dataclass(frozen=True, slots=True)
class _Bound:
    """A listening socket with the file and the folder that go when it does."""

    path: Path
    socket: socket.socket
    facts: os.stat_result
    private: Path | None


@asynccontextmanager
async def open_listener(folder: Path, name: str, temporary: Path) -> AsyncIterator[Listener]:
    """Listen at `folder/name` inside the block; the file is gone afterwards.

    Where that path would be too long for a socket, it lies in a new private folder below
    `temporary`, so the caller has to write down where. A dead socket at the path is replaced: the
    caller holds a lock that says that nobody alive listens there.

    Args:
        folder: made private to this user.
        name: of the socket.
        temporary: see `temporary_folder`.

    Raises:
        ConflictError: something else stands at the path, or the folder is not this user's.
        ExternalError: the socket cannot be made.
    """
    bound = await trio.to_thread.run_sync(_bind, folder, name, temporary)
    listener = trio.SocketListener(trio.socket.from_stdlib_socket(bound.socket))
    try:
        yield Listener(bound.path, listener)
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(_remove, bound)
            await listener.aclose()


async def connect(path: Path) -> trio.SocketStream:
    """Return a connection to the socket at `path`; waits while too many others want one.

    Raises:
        NobodyListensError: no live process listens there.
        ExternalError: it cannot be reached.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)  # noqa: FBT003 - positional in the library
        while not await trio.to_thread.run_sync(_try_connect, sock, path):  # noqa: ASYNC110 - see below
            await trio.sleep(_FULL_QUEUE_PAUSE_S)  # the kernel tells nobody when there is room
        return trio.SocketStream(trio.socket.from_stdlib_socket(sock))
    except BaseException:
        sock.close()
        raise


def temporary_folder(environment: Mapping[str, str]) -> Path:
    """Return where this user's short-lived files go; blocks for a moment."""
    for name in ("XDG_RUNTIME_DIR", "TMPDIR"):
        folder = Path(environment.get(name, ""))
        if folder.is_absolute() and folder.is_dir():
            return folder
    return Path(tempfile.gettempdir())


def somebody_listens(path: Path) -> bool:
    """Return whether there is a socket at `path` that a live process listens at; blocks.

    Raises:
        ExternalError: it cannot be told.
    """
    if not path.is_socket():
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.setblocking(False)  # noqa: FBT003 - positional in the library
        try:
            _try_connect(sock, path)
        except NobodyListensError:
            return False
    return True


def discard_dead(path: Path, name: str, temporary: Path) -> None:
    """Remove the socket, and its private folder, that a process left below `temporary`; blocks.

    Whoever wrote down where it lies need not be trusted: what a process listens at is left alone,
    and so is anything that `open_listener` cannot have made there.

    Args:
        path: of the socket.
        name: that `open_listener` gave to sockets of its kind.
        temporary: see `temporary_folder`.
    """
    private = path.parent
    is_ours = private.parent == temporary and private.name.startswith(_PREFIX)
    if not is_ours or path.name != name:
        return
    with contextlib.suppress(OSError, ExternalError):
        if somebody_listens(path):
            return
        found = private.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
            with contextlib.suppress(FileNotFoundError):
                if stat.S_ISSOCK(path.lstat().st_mode):
                    path.unlink()
            private.rmdir()


def _bind(folder: Path, name: str, temporary: Path) -> _Bound:
    private: Path | None = None
    try:
        files.make_private_dir(folder)
        path = folder / name
        if len(os.fsencode(path)) > PATH_LIMIT_BYTES:
            private = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=temporary))
            path = private / name
        _clear(path)
        bound = _listen(path)
    except OSError as error:
        if private is not None:
            shutil.rmtree(private, ignore_errors=True)
        raise ExternalError(f"cannot listen at {folder / name}: {reason_of(error)}") from error
    return _Bound(path, bound, path.lstat(), private)


def _clear(path: Path) -> None:
    """Remove a socket that a dead process left."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise ConflictError(f"{path} is not a socket; move it away and try again")
        path.unlink()


def _listen(path: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(os.fsencode(path))
        # Before it listens: until then nobody can connect, whatever the umask.
        path.chmod(0o600)
        sock.listen(_BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock


def _remove(bound: _Bound) -> None:
    with contextlib.suppress(OSError):
        # Somebody may have put something else there.
        if os.path.samestat(bound.path.lstat(), bound.facts):
            bound.path.unlink()
    if bound.private is not None:
        with contextlib.suppress(OSError):
            bound.private.rmdir()


def _try_connect(sock: socket.socket, path: Path) -> bool:
    """Connect a socket that does not block; return False when the listener's queue is full."""
    try:
        sock.connect(os.fsencode(path))
    except BlockingIOError:
        return False
    except OSError as error:
        # What is no socket refuses a connection too.
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ECONNREFUSED):
            raise NobodyListensError(path) from error
        raise ExternalError(f"cannot connect to {path}: {reason_of(error)}") from error
    return True
