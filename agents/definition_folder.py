"""Finds the files of definitions below a folder, whatever else lies there, within bounds."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from engine.core.errors import UsageError, reason_of
from engine.system.files import is_there
from engine.system.links import leads_out

MOST_FILES = 1_000
# How many names are looked at before giving up, whatever they are.
MOST_ENTRIES = 20_000


@dataclass(slots=True)
class Found:
    """What a folder holds.

    Attributes:
        files: by name, in the order of their paths.
        outside: names whose file is a link that leads out of where it may.
        notices: sentences about what was left out.
    """

    files: dict[str, list[Path]] = field(default_factory=dict)
    outside: dict[str, Path] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)


def find_definition_files(folder: Path, within: Path | None = None) -> Found:
    """Return the `*.md` files below `folder`, but no `*.example.md`; blocks.

    Links are followed, each folder once. A folder that is not there holds nothing.

    Args:
        folder: where to look; folders below it are looked into as well.
        within: what no link may lead out of; None lets them lead anywhere.
    """
    found = Found()
    try:
        if not is_there(folder):
            return found
    except UsageError as error:
        found.notices.append(str(error))
        return found
    limit = None if within is None else within.resolve()
    for count, path in enumerate(_walk(folder, limit, MOST_ENTRIES, found.notices)):
        if count == MOST_FILES:
            found.notices.append(
                f"{folder} holds more than {MOST_FILES:,} definitions: the rest is left out"
            )
            break
        if _leads_out(path, limit):
            found.outside[path.stem] = path
        else:
            found.files.setdefault(path.stem, []).append(path)
    return found


def _walk(top: Path, limit: Path | None, room: int, notices: list[str]) -> Iterator[Path]:
    """Yield files in the order of their paths, and add a notice for each folder left out."""
    seen: set[tuple[int, int]] = set()
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        if _leads_out(folder, limit):
            notices.append(f"{folder} is a link that leads out of the repository: it is left out")
            continue
        try:
            stat = folder.stat()
            if (stat.st_dev, stat.st_ino) in seen:
                continue
            seen.add((stat.st_dev, stat.st_ino))
            entries = _entries(folder, room)
        except OSError as error:
            notices.append(f"{folder} cannot be read: {reason_of(error)}")
            continue
        room -= len(entries)
        if room < 0:
            notices.append(f"{top} holds too much besides definitions: the rest is left out")
            return
        waiting += [path for path, is_folder in reversed(entries) if is_folder]
        yield from (path for path, is_folder in entries if not is_folder and _is_definition(path))


def _entries(folder: Path, room: int) -> list[tuple[Path, bool]]:
    """Return what `folder` holds, sorted, and whether each is a folder; a little over `room`."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            found.append((folder / entry.name, _is_folder(entry)))
            if len(found) > room:
                break
    return sorted(found)


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _is_definition(path: Path) -> bool:
    return path.name.endswith(".md") and not path.name.endswith(".example.md")


def _leads_out(path: Path, limit: Path | None) -> bool:
    return limit is not None and leads_out(path, limit)
