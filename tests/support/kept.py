"""A folder that is brought back to what it was, and the crash points that are worth trying."""

import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

Point = tuple[str, int]  # its name, and the number of the pass


def restore(folder: Path, kept: Path) -> None:
    """Make `folder` what `kept` is; folders stay the same ones, as a worktree must."""
    for there in folder.iterdir():
        if there.is_dir() and not there.is_symlink():
            if not (kept / there.name).is_dir() or (kept / there.name).is_symlink():
                shutil.rmtree(there)
        else:
            there.unlink()
    for each in kept.iterdir():
        if each.is_dir() and not each.is_symlink():
            (folder / each.name).mkdir(exist_ok=True)
            restore(folder / each.name, each)
        else:
            shutil.copy2(each, folder / each.name, follow_symlinks=False)
    shutil.copystat(kept, folder)


def telling_points(names: Sequence[str]) -> list[Point]:
    """Return of each name the first passes and the last one."""
    passes = Counter(names)
    return [(name, n) for name, most in passes.items() for n in sorted({1, min(2, most), most})]
