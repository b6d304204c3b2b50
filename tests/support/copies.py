"""A folder that a test spoils again and again, and has put back each time."""

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

# What cannot all stay as it was when something is done to a file. The clock of a file system may
# stand still for that long, but no time of it that lies in the past comes back.
_Signature = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of a folder, of which only what was changed meanwhile is copied again.

    Attributes:
        kept: what it is a copy of; it must stay as it is. Where an index of Git in it was written
            for files that are gone by now, a copied file may get the number of one of them, and
            Git may take it for that one.
        place: where it lies; its parent exists.
    """

    kept: Path
    place: Path
    _made: dict[str, _Signature] = field(default_factory=dict)

    def put_back(self) -> None:
        """Make the folder equal to what is kept, whatever lies there."""
        self._put_back(str(self.kept), str(self.place))

    def _put_back(self, kept: str, place: str) -> None:
        # Paths are texts here, because the folders of a repository are many.
        Path(place).mkdir(exist_ok=True)
        wanted = {entry.name: entry for entry in os.scandir(kept)}
        for there in list(os.scandir(place)):
            want = wanted.get(there.name)
            if there.is_dir(follow_symlinks=False):
                if want is None or not want.is_dir(follow_symlinks=False):
                    shutil.rmtree(there.path)
            elif self._made.get(there.path) == _signature(there.stat(follow_symlinks=False)):
                del wanted[there.name]
            else:
                Path(there.path).unlink()
        for name, want in wanted.items():
            path = f"{place}/{name}"
            if want.is_dir(follow_symlinks=False):
                self._put_back(want.path, path)
            else:
                shutil.copy2(want.path, path, follow_symlinks=False)
                self._made[path] = _signature(os.lstat(path))
        if self._made.get(place) != _signature(os.lstat(place)):
            shutil.copystat(kept, place)
            self._made[place] = _signature(os.lstat(place))


def _signature(status: os.stat_result) -> _Signature:
    times = (status.st_ctime_ns, status.st_mtime_ns)
    return (*times, status.st_ino, status.st_mode, status.st_size)
