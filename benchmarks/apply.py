"""What applying changes under a journal costs over writing and flushing the files plainly."""

import os
import subprocess
from collections.abc import Callable
from itertools import count, cycle
from pathlib import Path
from tempfile import TemporaryDirectory

import trio

from benchmarks.figure import Figure, Step, medians_ms
from engine.core.ids import TreeId
from worktrees.apply import execute, prepare
from worktrees.discovery import discover
from worktrees.patch import changes_between
from worktrees.state import measure

_FILES = 2_000
_ROUNDS = {10: 20, 1_000: 7}


async def figures() -> list[Figure]:
    return [await _apply(changed) for changed in _ROUNDS]


async def _apply(changed: int) -> Figure:
    with TemporaryDirectory() as folder:
        scratch = Path(folder)
        # Each side has a checkout of its own, and goes forth and back between two trees.
        checkouts = [
            await trio.to_thread.run_sync(_Checkout, scratch / side, changed)
            for side in ("ours", "plain")
        ]
        ours, plain = await _ours(checkouts[0]), _plain(checkouts[1])
        rounds = _ROUNDS[changed]
        values = await medians_ms(ours, lambda: trio.to_thread.run_sync(plain), rounds)
    return Figure(f"apply, {changed:,} files", values[0], "ms", 1.5, values[1])


class _Checkout:
    def __init__(self, root: Path, changed: int) -> None:
        self.root = root
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(root.parent),
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        self.paths = [f"d{number % 97}/{number}.txt" for number in range(changed)]
        root.mkdir()
        self.git("init", "-q")
        self._write(range(_FILES), "old")
        self.git("add", ".")
        old = self.git("write-tree")
        self._write(range(changed), "new")
        index = root / ".git" / "new"
        self.git("read-tree", old, index=index)
        self.git("add", ".", index=index)
        self.trees = (TreeId(old), TreeId(self.git("write-tree", index=index)))
        self._write(range(changed), "old")

    def _write(self, numbers: range, word: str) -> None:
        for number in numbers:
            path = self.root / f"d{number % 97}" / f"{number}.txt"
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"{word} {number}\n" * 100)

    def git(self, *arguments: str, index: Path | None = None, stdin: str = "") -> str:
        env = self.env if index is None else {**self.env, "GIT_INDEX_FILE": str(index)}
        argv, root = ["git", *arguments], self.root
        done = subprocess.run(
            argv, cwd=root, env=env, input=stdin, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()


async def _ours(checkout: _Checkout) -> Step:
    repo = await discover(checkout.root, checkout.env)
    old, new = checkout.trees
    there = await changes_between(repo, old, new)
    back = await changes_between(repo, new, old)
    directions, numbers = cycle([there, back]), count()
    state = await measure(repo, repo.common_dir)

    async def apply() -> None:
        folder = repo.common_dir / f"integration-{next(numbers)}"
        changes = next(directions)
        await execute(await prepare(repo, changes, evidence_digest="", triple=state, folder=folder))

    return apply


def _plain(checkout: _Checkout) -> Callable[[], None]:
    old, new = checkout.trees
    trees = cycle([new, old])
    names = "".join(f"{path}\0" for path in checkout.paths)
    index = checkout.root / ".git" / "plain"

    def apply() -> None:
        index.unlink(missing_ok=True)
        checkout.git("read-tree", next(trees), index=index)
        checkout.git("checkout-index", "-f", "-z", "--stdin", index=index, stdin=names)
        for path in checkout.paths:
            descriptor = os.open(checkout.root / path, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)

    return apply
