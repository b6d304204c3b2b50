"""Files that no agent reads, wherever a path or a link to them lies: those with the user's keys.

This keeps a model from being led to them by its tools. A shell runs as the user and can read them.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from agents.filetools.tool import ToolFaultError

Identities = frozenset[tuple[int, int]]
# What is said of such a file, after its name.
HOLDS_KEYS = "holds the user's keys for models, which no agent reads"


def identify_secrets(paths: Iterable[Path]) -> Identities:
    """Return by which device and inode the files at `paths` are known, as far as they are there."""
    found = set()
    for path in paths:
        with suppress(OSError):
            facts = path.stat()
            found.add((facts.st_dev, facts.st_ino))
    return frozenset(found)


def refuse_secret(found: os.stat_result, secrets: Identities, shown: str) -> None:
    """Refuse a file that is one of `secrets`.

    Raises:
        ToolFaultError: it is.
    """
    if (found.st_dev, found.st_ino) in secrets:
        raise ToolFaultError(f"{shown} {HOLDS_KEYS}")
