"""What changed after a moment, by the time that the system keeps of each file and folder."""

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path


def newer_than(
    root: Path, paths: Iterable[bytes], since_ns: int, *, folders: bool = True
) -> list[bytes]:
    """Return which of `paths`, and of what lies below them, changed after a moment; blocks.

    A package manager may link the same file into other places, which moves the time of its last
    change. So a file that has names elsewhere too goes by the time at which it was last written,
    which programs can set; it is not lost with one of its names.

    Args:
        root: what the paths are relative to; the empty path is the root itself.
        paths: of files and folders, which need not be there.
        since_ns: the moment, in nanoseconds since the epoch.
        folders: whether a folder counts that something came into or left, or that is new itself.

    Returns:
        Paths, sorted.
    """
    seen = dict(_look(root, paths))
    names: dict[tuple[int, int], int] = {}
    for known in seen.values():
        names[known.st_dev, known.st_ino] = names.get((known.st_dev, known.st_ino), 0) + 1
    found = []
    for path, known in seen.items():
        is_folder = stat.S_ISDIR(known.st_mode)
        is_elsewhere = (
            stat.S_ISREG(known.st_mode) and known.st_nlink > names[known.st_dev, known.st_ino]
        )
        changed_ns = known.st_mtime_ns if is_elsewhere else known.st_ctime_ns
        if changed_ns > since_ns and (folders or not is_folder):
            found.append(path)
    return sorted(found)


def _look(root: Path, paths: Iterable[bytes]) -> Iterator[tuple[bytes, os.stat_result]]:
    top = os.fsencode(root)
    waiting = [path.rstrip(b"/") for path in paths]
    while waiting:
        path = waiting.pop()
        place = os.path.join(top, path)  # noqa: PTH118 - a path of bytes
        try:
            known = os.lstat(place)
            inside = os.listdir(place) if stat.S_ISDIR(known.st_mode) else []
        except FileNotFoundError:
            continue
        yield path, known
        waiting += [path + b"/" + name if path else name for name in inside]
