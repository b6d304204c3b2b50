"""How late the loop gets to what is due while worktrees are made and captured."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import trio

from benchmarks.figure import Figure
from benchmarks.repository import _Bench, _build
from engine.core.ids import CommitId
from worktrees.capture import capture
from worktrees.discovery import discover
from worktrees.lease import create_worktree
from worktrees.objects import read_commit_tree

_FILES = 2_000
_AT_ONCE = 8
_TICK_S = 0.01


async def figures() -> list[Figure]:
    with TemporaryDirectory() as scratch:
        root, env = await trio.to_thread.run_sync(_build, Path(scratch), _FILES)
        bench = _Bench(await discover(root, env), Path(scratch), _FILES, env)
        head = CommitId(bench.git("rev-parse", "HEAD"))
        tree = await read_commit_tree(bench.repo, head)

        async def one(folder: Path) -> None:
            seed = folder / "indexes" / "seed"
            lock = bench.scratch / "lock"
            made = await create_worktree(bench.repo, folder / "tree", head, seed, lock, "bench")
            await trio.to_thread.run_sync((made.root / "d1" / "1.txt").write_text, "edited\n")
            await capture(made, tree, seed, folder)

        folders = [bench.new_folder() for _ in range(_AT_ONCE)]

        async def work() -> None:
            async with trio.open_nursery() as nursery:
                for folder in folders:
                    nursery.start_soon(one, folder)

        late = await latest_tick_ms(work)
    return [Figure(f"latest tick, {_AT_ONCE} worktrees at once", late, "ms", 50)]


async def latest_tick_ms(work: Callable[[], Awaitable[object]]) -> float:
    """Return by how many milliseconds the latest of many ticks was late while `work` worked."""
    late = [0.0]

    async def tick() -> None:
        due = trio.current_time()
        while True:
            due += _TICK_S
            await trio.sleep_until(due)
            now = trio.current_time()
            late.append(now - due)
            due = max(due, now)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(tick)
        await work()
        nursery.cancel_scope.cancel()
    return max(late) * 1000
