"""Starts programs: the only module that knows how the language does that."""

import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeAlias

from engine.core.errors import ExternalError, reason_of

Popen: TypeAlias = "subprocess.Popen[bytes]"
NOTHING: Final = subprocess.DEVNULL
PIPE: Final = subprocess.PIPE


class LaunchError(ExternalError):
    """A program could not be started."""

    def __init__(self, program: str, reason: str) -> None:
        self.program = program
        self.reason = reason
        super().__init__(f"cannot start {program!r}: {reason}")


def launch(
    argv: tuple[str | bytes, ...],
    cwd: Path,
    env: Mapping[str, str],
    *,
    stdin: int,
    stdout: int = PIPE,
    stderr: int = PIPE,
) -> Popen:
    """Start a program in a session of its own; blocks.

    Args:
        argv: the program, looked up in the PATH of `env`, and its arguments.
        cwd: where it starts.
        env: its whole environment.
        stdin: a descriptor, NOTHING or PIPE, as for the next two.
        stdout: the same.
        stderr: the same.

    Raises:
        LaunchError: it could not be started; nothing ran.
    """
    # A child starts with the signal mask of the thread that starts it.
    mask = signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        return subprocess.Popen(
            argv,
            bufsize=0,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=cwd,
            env=env,
            # A session of its own is a group of its own too, and has no terminal to ask on.
            start_new_session=True,
        )
    except OSError as error:
        reason = reason_of(error).lower()
        if error.filename == cwd:
            reason = f"its working directory {cwd}: {reason}"
        raise LaunchError(os.fsdecode(argv[0]), reason) from error
    except ValueError as error:  # a NUL byte, or a name in `env` that cannot be one
        raise LaunchError(os.fsdecode(argv[0]), str(error)) from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
