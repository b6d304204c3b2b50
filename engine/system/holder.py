"""Who holds a lock; apart from the locks, since those who only look need not load their library.

Every function blocks.
"""

import os
from pathlib import Path

HOLDER_LIMIT_BYTES = 1024


def read_live_holder(path: Path) -> str | None:
    """Return who holds the lock at `path` now, None when nobody does; nothing is locked.

    Source: proc_locks(5).
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    device = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    for line in Path("/proc/locks").read_text("ascii").splitlines():
        fields = line.split()
        if fields[1] == "FLOCK" and device in fields:
            return read_holder(path)
    return None


def read_holder(path: Path) -> str:
    """Return what the last holder of the lock at `path` wrote about itself."""
    try:
        with path.open("rb") as file:
            text = file.read(HOLDER_LIMIT_BYTES)
    except OSError:
        text = b""
    return text.decode(errors="replace").strip() or "another process"
