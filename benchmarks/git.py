"""What measurements, patches and lists of changes cost over the git program doing the same.

Snapshots, worktrees and captures are in `benchmarks.repository`. `--full` adds 50,000 files and
fifty worktrees made at once, which takes minutes.
"""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import trio

from benchmarks.figure import Figure, medians_ms, seconds
from benchmarks.repository import _Bench, _build
from engine.core.ids import CommitId, RunId, TreeId
from worktrees.discovery import discover
from worktrees.lease import create_worktree
from worktrees.patch import changes_between, write_patch
from worktrees.snapshot import take_snapshot
from worktrees.state import measure

_SIZES = {200: 9, 12_000: 5}
_FULL_SIZES = {50_000: 3}
_AT_ONCE = 50
_STATUS = ("status", "--porcelain=v2", "-z", "--untracked-files=all", "--no-renames")


async def figures() -> list[Figure]:
    full = "--full" in sys.argv
    found: list[Figure] = []
    for files, rounds in (_SIZES | (_FULL_SIZES if full else {})).items():
        with TemporaryDirectory() as scratch:
            root, env = await trio.to_thread.run_sync(_build, Path(scratch), files)
            bench = _Bench(await discover(root, env), Path(scratch), files, env)
            found.append(await _measurement(bench, rounds))
            found += await _differences(bench, rounds)
            if full and files == min(_SIZES):
                found.append(await _at_once(bench))
    return found


async def _measurement(bench: _Bench, rounds: int) -> Figure:
    """Compare a state triple with the status, staging, tree and listing that make one up."""
    index = bench.new_folder() / "index"

    def plainly() -> None:
        index.write_bytes(bench.repo.index.read_bytes())
        bench.git(*_STATUS, index=index)
        bench.git("add", "--update", index=index)
        bench.git("write-tree", index=index)
        bench.git("ls-files", "--stage", "-v", "-z", index=index)

    scratch = bench.new_folder()
    values = await medians_ms(
        lambda: measure(bench.repo, scratch), lambda: trio.to_thread.run_sync(plainly), rounds
    )
    return Figure(f"state triple, {bench.files:,} files", values[0], "ms", 1.3, values[1])


async def _differences(bench: _Bench, rounds: int) -> list[Figure]:
    run = RunId(f"differences-{bench.files}")
    snapshot = await take_snapshot(bench.repo, run, bench.new_folder(), include_uncommitted=True)
    before, after = TreeId(bench.git("rev-parse", "HEAD^{tree}")), snapshot.tree
    target = bench.new_folder() / "a.patch"

    def plain_patch() -> None:
        argv = ["git", "diff-tree", "-r", "-p", "--binary", "--full-index", before, after]
        with target.open("wb") as stream:
            subprocess.run(argv, cwd=bench.repo.root, env=bench.env, stdout=stream, check=True)

    def plain_list() -> None:
        bench.git("diff-tree", "-r", "-z", "--raw", before, after)

    patch = await medians_ms(
        lambda: write_patch(bench.repo, before, after, target),
        lambda: trio.to_thread.run_sync(plain_patch),
        rounds,
    )
    changes = await medians_ms(
        lambda: changes_between(bench.repo, before, after),
        lambda: trio.to_thread.run_sync(plain_list),
        rounds,
    )
    return [
        Figure(f"patch, {bench.files:,} files", patch[0], "ms", 1.0, patch[1]),
        Figure(f"change list, {bench.files:,} files", changes[0], "ms", 1.0, changes[1]),
    ]


async def _at_once(bench: _Bench) -> Figure:
    head = CommitId(bench.git("rev-parse", "HEAD"))

    async def one(folder: Path) -> None:
        seed = folder / "indexes" / "seed"
        lock = bench.scratch / "lock"
        await create_worktree(bench.repo, folder / "tree", head, seed, lock, "bench")

    async def in_turn() -> None:
        for folder in [bench.new_folder() for _ in range(_AT_ONCE)]:
            await one(folder)

    async def together() -> None:
        async with trio.open_nursery() as nursery:
            for folder in [bench.new_folder() for _ in range(_AT_ONCE)]:
                nursery.start_soon(one, folder)

    plain = await seconds(in_turn)
    ours = await seconds(together)
    return Figure(f"{_AT_ONCE} worktrees at once", ours, "s", 1.2, plain)
