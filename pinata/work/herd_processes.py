"""The programs that an agent has running, as its owner is told of them; all of this blocks."""

from pathlib import Path

from agents.herdsman.runtime import ForegroundProcess
from engine.core.errors import ExternalError, reason_of
from engine.system import strays


def find_foreground(prefix: str) -> list[ForegroundProcess]:
    """Return the programs whose mark begins with `prefix`, the oldest first.

    Raises:
        ExternalError: the system does not tell.
    """
    try:
        found = sorted(strays.find_marked(prefix), key=lambda one: one.start_ticks)
        shown = [_shown(one.pid) for one in found]
    except OSError as error:
        raise ExternalError(f"cannot look at processes: {reason_of(error)}") from error
    return [one for one in shown if one is not None]


def _shown(pid: int) -> ForegroundProcess | None:
    """Return what a process is called; None when it is gone."""
    folder = Path("/proc") / str(pid)
    try:
        name = (folder / "comm").read_bytes().strip()
        command = (folder / "cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return ForegroundProcess(pid, _text(name), _text(command))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "ignore")
