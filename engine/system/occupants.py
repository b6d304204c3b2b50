"""Processes that have something in a folder, and so may write there whatever becomes of its name.

A path leads nowhere once the folder was renamed. What a process had opened before leads on into it:
its working directory, its open files and folders, and files that it mapped.

Source: proc(5), `cwd`, `root`, `fd` and `maps`, which name files as they are called now.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.system.identity import all_pids


@dataclass(frozen=True, slots=True)
class Occupant:
    """A process with something in a folder.

    Attributes:
        program: what the kernel calls the program, of 15 bytes at most.
    """

    pid: int
    program: str


def find_occupants(folder: Path) -> list[Occupant]:
    """Return the processes that have something in `folder`, by number; blocks.

    Those of other users show it only to root, and processes in containers may call it otherwise.
    """
    top = os.fsencode(os.path.realpath(folder))
    return [Occupant(pid, _program(pid)) for pid in sorted(all_pids()) if _is_in(pid, top)]


def _is_in(pid: int, top: bytes) -> bool:
    within = top + b"/"
    if any(held == top or held.startswith(within) for held in _held(pid)):
        return True
    try:
        mapped = Path(f"/proc/{pid}/maps").read_bytes()
    except OSError:
        return False
    # Of all characters only the end of a line is written otherwise there.
    return b" " + within.replace(b"\n", b"\\012") in mapped


def _held(pid: int) -> Iterator[bytes]:
    """Yield what the process holds open, as far as it lets us see that."""
    place = b"/proc/%d/" % pid
    try:
        opened = os.listdir(place + b"fd")
    except OSError:
        opened = []
    for name in (b"cwd", b"root", *(b"fd/" + descriptor for descriptor in opened)):
        try:
            yield os.readlink(place + name)  # noqa: PTH115 - a path of bytes
        except OSError:
            continue


def _program(pid: int) -> str:
    try:
        name = Path(f"/proc/{pid}/comm").read_bytes()
    except OSError:
        return "?"
    return name.decode("utf-8", "backslashreplace").strip()
