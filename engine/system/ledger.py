"""Which processes were started under a mark, on disk, so that one that shed its mark is found too.

A line is written right after each spawn, in the thread that spawned. It is not flushed: it is of
use only as long as the machine runs, and that long the kernel keeps it.
"""

import json
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.system import files
from engine.system.identity import HIGHEST_PID, HIGHEST_TICKS, ProcessIdentity

_LIMIT_BYTES = 256 << 20
_log = logging.getLogger(f"pinata.{__name__}")


class _Ledgers:
    """The open ledgers of this process, by the token that their marks begin with."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.descriptors: dict[str, int] = {}


_ledgers = _Ledgers()


@contextmanager
def keep_ledger(token: str, path: Path) -> Iterator[None]:
    """Inside the block, write down every process whose mark begins with `token` and a slash.

    Blocks for a moment on entry; one block per token at a time.

    Raises:
        OSError: the file cannot be opened.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    with _ledgers.lock:
        assert token not in _ledgers.descriptors
        _ledgers.descriptors[token] = descriptor
    try:
        yield
    finally:
        with _ledgers.lock:
            del _ledgers.descriptors[token]
            os.close(descriptor)


def write_down(mark: str, identity: ProcessIdentity) -> None:
    """Append a started process to the ledger of its mark, if there is one.

    A full disk does not end the process: it is looked for by its mark first anyway.
    """
    token, _, label = mark.partition("/")
    entry = [label, identity.pid, identity.start_ticks, identity.boot_id]
    line = json.dumps(entry).encode() + b"\n"
    with _ledgers.lock:
        descriptor = _ledgers.descriptors.get(token)
        if descriptor is None:
            return
        try:
            os.write(descriptor, line)
        except OSError as error:
            _log.warning("process %s could not be written down: %s", identity.pid, error)


def read_ledger(path: Path) -> list[ProcessIdentity]:
    """Return the processes in the ledger at `path`, oldest first; blocks.

    A line that a crash or a full disk cut short is passed over: its process still has its mark.
    So is one that names what can be no process.

    Raises:
        CorruptionError: it is no plain file.
        OSError: it cannot be read.
    """
    try:
        data = files.read_regular(path, _LIMIT_BYTES)
    except FileNotFoundError:
        return []
    found = []
    for line in data.splitlines():
        try:
            _, pid, start_ticks, boot_id = json.loads(line)
        except (ValueError, TypeError, RecursionError):
            continue
        is_process = _is_from(1, HIGHEST_PID, pid) and _is_from(0, HIGHEST_TICKS, start_ticks)
        if is_process and isinstance(boot_id, str):
            found.append(ProcessIdentity(pid, start_ticks, boot_id))
    return found


def _is_from(least: int, most: int, value: object) -> bool:
    return type(value) is int and least <= value <= most
