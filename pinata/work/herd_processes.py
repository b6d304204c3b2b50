"""The programs that an agent has running, as its owner is told of them; all of this blocks."""

from pathlib import Path
from typing import Final

from agents.herdsman.runtime import ForegroundProcess
from engine.core.errors import ExternalError, reason_of
from engine.system import strays

MOST: Final = 8
_NAME_BYTES = 256
_COMMAND_BYTES = 4 << 10


def find_foreground(prefix: str) -> list[ForegroundProcess]:
    """Return the programs whose mark begins with `prefix`, at most eight, the oldest first.

    Raises:
        ExternalError: the system does not tell.
    """
    try:
        found = sorted(strays.find_marked(prefix), key=lambda one: one.start_ticks)
        shown = [_shown(one.pid) for one in found]
    except OSError as error:
        raise ExternalError(f"cannot look at processes: {reason_of(error)}") from error
    return [one for one in shown if one is not None][:MOST]


def _shown(pid: int) -> ForegroundProcess | None:
    """Return what a process is called; None when it is gone."""
    folder = Path("/proc") / str(pid)
    try:
        name = (folder / "comm").read_bytes().strip()
        command = (folder / "cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return ForegroundProcess(pid, _text(name, _NAME_BYTES), _text(command, _COMMAND_BYTES))


def _text(data: bytes, limit_bytes: int) -> str:
    return data[:limit_bytes].decode("utf-8", "ignore")
