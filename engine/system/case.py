"""Whether a volume tells `a` from `A`."""

import os
from pathlib import Path


def folds_case(folder: Path, name: str) -> bool:
    """Return whether `folder` finds its entry `name` also under the opposite spelling.

    Args:
        folder: the folder to probe; nothing is written in it.
        name: an entry that is there and has at least one letter.
    """
    try:
        return os.path.samestat((folder / name).lstat(), (folder / name.swapcase()).lstat())
    except FileNotFoundError:
        return False
