"""Named crash points: places where a test records, kills or breaks the process.

Every durable step calls `point` with its dotted name. Unarmed, which is always the case outside
tests, that costs one comparison. A recording run lists the names that a scenario passes, and a kill
test then dies at each of them in turn, so a new durable step is tested without touching the test.
"""

import errno
import os
import signal
import threading
from pathlib import Path
from typing import Protocol

from engine.core.errors import UsageError


class _Plan(Protocol):
    def passed(self, name: str) -> None: ...


class _Recording:
    """Appends each name to a file, whole lines only, so that any process may share it."""

    def __init__(self, file: Path) -> None:
        self._fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def passed(self, name: str) -> None:
        os.write(self._fd, f"{name}\n".encode())


class _Countdown:
    """Counts the passes of one point down, from any thread; acts at the last one only."""

    def __init__(self, name: str, passes: int) -> None:
        self._name = name
        self._left = passes
        self._lock = threading.Lock()

    def is_due(self, name: str) -> bool:
        """Count a pass of `name`; return whether it is the one that was waited for."""
        if name != self._name:
            return False
        with self._lock:
            self._left -= 1
            return self._left == 0


class _Kill:
    def __init__(self, countdown: _Countdown) -> None:
        self._countdown = countdown

    def passed(self, name: str) -> None:
        if self._countdown.is_due(name):
            os.kill(os.getpid(), signal.SIGKILL)


class _Failure:
    def __init__(self, countdown: _Countdown, code: int) -> None:
        self._countdown = countdown
        self._code = code

    def passed(self, name: str) -> None:
        if self._countdown.is_due(name):
            raise OSError(self._code, os.strerror(self._code))


_armed: _Plan | None = None


def point(name: str) -> None:
    """Pass the crash point `name`, from any thread.

    Raises:
        OSError: a plan of this process says that the step fails here.
    """
    if _armed is not None:
        _armed.passed(name)


def install(plan: str) -> None:
    """Arm this process with `plan`, in place of any earlier one; empty text disarms it.

    `record:FILE` appends each name that is passed to FILE, one a line. `kill:NAME:N` ends the
    process with SIGKILL when it passes NAME for the N-th time. `error:NAME:N:ENOSPC` raises that
    system error there.

    Raises:
        UsageError: the plan is none of these.
    """
    global _armed  # noqa: PLW0603  (the one switch of the process; `point` must stay cheap)
    _armed = _parse(plan) if plan else None


def _parse(plan: str) -> _Plan:
    match plan.split(":"):
        case ["record", *path] if any(path):
            return _Recording(Path(":".join(path)))
        case ["kill", name, passes] if _is_count(passes):
            return _Kill(_Countdown(name, int(passes)))
        case ["error", name, passes, code] if _is_count(passes) and code in _ERROR_CODES:
            return _Failure(_Countdown(name, int(passes)), _ERROR_CODES[code])
        case _:
            raise UsageError(
                f"fault plan {plan!r} is none of record:FILE, kill:NAME:N, error:NAME:N:ERRNO"
            )


_ERROR_CODES = {name: code for code, name in errno.errorcode.items()}


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text) > 0
