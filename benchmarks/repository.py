"""What snapshots, worktrees and captures cost over the git program doing the same."""

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import trio

from benchmarks.figure import Figure, medians_ms
from engine.core.ids import CommitId, RunId
from worktrees.capture import capture
from worktrees.discovery import discover
from worktrees.hygiene import Repository
from worktrees.lease import create_worktree
from worktrees.snapshot import take_snapshot

_ROUNDS = {200: 15, 12_000: 7}
_EDITED = 5
_IDENTITY = ("NAME", "EMAIL")
_WORKTREE_LIMIT = {200: 1.5, 12_000: 1.0}


@dataclass(frozen=True, slots=True)
class _Bench:
    """A repository of so many files of 1 KiB, some of them edited since the commit."""

    repo: Repository
    scratch: Path
    files: int
    env: dict[str, str]
    numbers: "count[int]" = field(default_factory=count)

    @property
    def rounds(self) -> int:
        return _ROUNDS[self.files]

    def git(self, *arguments: str, cwd: Path | None = None, index: Path | None = None) -> str:
        env = self.env if index is None else {**self.env, "GIT_INDEX_FILE": str(index)}
        done = subprocess.run(
            ["git", *arguments],
            cwd=cwd or self.repo.root,
            env=env,
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    def new_folder(self) -> Path:
        folder = self.scratch / f"f{next(self.numbers)}"
        folder.mkdir()
        return folder


async def figures() -> list[Figure]:
    found = []
    for files in _ROUNDS:
        with TemporaryDirectory() as scratch:
            root, env = await trio.to_thread.run_sync(_build, Path(scratch), files)
            bench = _Bench(await discover(root, env), Path(scratch), files, env)
            found += [await _snapshot(bench), await _worktree(bench), await _capture(bench)]
    return found


def _build(scratch: Path, files: int) -> tuple[Path, dict[str, str]]:
    root = scratch / "repository"
    env = {"PATH": os.environ["PATH"], "HOME": str(scratch), "GIT_CONFIG_NOSYSTEM": "1"}
    env |= {f"GIT_{role}_{what}": "bench" for role in ("AUTHOR", "COMMITTER") for what in _IDENTITY}
    for number in range(files):
        path = root / f"d{number % 97}" / f"{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{number}\n" * (1024 // (len(str(number)) + 1)))
    # A collection in the background would be measured too, and outlive the folder.
    quiet = ["config", "gc.auto", "0"]
    for argv in (["init", "-q"], quiet, ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run(["git", *argv], cwd=root, env=env, check=True)
    _edit(root)
    return root, env


def _edit(root: Path) -> None:
    for number in range(_EDITED):
        (root / f"d{number}" / f"{number}.txt").write_text(f"edited {number}\n")


async def _snapshot(bench: _Bench) -> Figure:
    async def ours() -> None:
        run = RunId(f"bench-{next(bench.numbers)}")
        await take_snapshot(bench.repo, run, bench.new_folder(), include_uncommitted=True)

    def plainly() -> None:
        index = bench.new_folder() / "index"
        shutil.copy2(bench.repo.index, index)
        bench.git("add", "--all", index=index)
        tree = bench.git("write-tree", index=index)
        commit = bench.git("commit-tree", tree, "-p", "HEAD", "-m", "snapshot")
        bench.git("update-ref", f"refs/plain/{next(bench.numbers)}", commit)

    values = await medians_ms(ours, lambda: trio.to_thread.run_sync(plainly), bench.rounds)
    return Figure(f"snapshot, {bench.files:,} files", values[0], "ms", 1.0, values[1])


async def _worktree(bench: _Bench) -> Figure:
    head = CommitId(bench.git("rev-parse", "HEAD"))

    async def ours() -> None:
        folder = bench.new_folder()
        await create_worktree(
            bench.repo,
            folder / "tree",
            head,
            folder / "indexes" / "seed",
            bench.scratch / "lock",
            "bench",
        )

    def plainly() -> None:
        bench.git("worktree", "add", "-q", "--detach", str(bench.new_folder() / "tree"), head)

    values = await medians_ms(ours, lambda: trio.to_thread.run_sync(plainly), bench.rounds)
    limit = _WORKTREE_LIMIT[bench.files]
    return Figure(f"worktree, {bench.files:,} files", values[0], "ms", limit, values[1])


async def _capture(bench: _Bench) -> Figure:
    head = CommitId(bench.git("rev-parse", "HEAD"))
    folder = bench.new_folder()
    seed = folder / "indexes" / "seed"
    worktree = await create_worktree(
        bench.repo, folder / "tree", head, seed, bench.scratch / "lock", "bench"
    )
    _edit(worktree.root)
    snapshot = await take_snapshot(
        bench.repo, RunId("base"), bench.new_folder(), include_uncommitted=False
    )

    async def ours() -> None:
        await capture(worktree, snapshot.tree, seed, bench.new_folder())

    def plainly() -> None:
        index = bench.new_folder() / "index"
        shutil.copy2(seed, index)
        bench.git("add", "--all", cwd=worktree.root, index=index)
        tree = bench.git("write-tree", cwd=worktree.root, index=index)
        bench.git("diff-tree", "-r", "--raw", "-z", snapshot.tree, tree)

    values = await medians_ms(ours, lambda: trio.to_thread.run_sync(plainly), bench.rounds)
    return Figure(f"capture, {bench.files:,} files", values[0], "ms", 1.3, values[1])
