"""What a look at a long run costs, for one who has just begun to look and for one who goes on."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.figure import Figure, medians_ms
from benchmarks.stored_run import make_run
from pinata import app
from pinata.work.context import Context
from pinata.work.observer import Silence

_TASKS = 1_000
_ROUNDS = 21
_LIMIT_MS = 50


async def figures() -> list[Figure]:
    with TemporaryDirectory() as scratch:
        root = Path(scratch) / "repo"
        await make_run(root, _TASKS)
        kept = _context(root)

        async def afresh() -> None:
            await app.call_tool(_context(root), "pinata_status", {})

        async def again() -> None:
            await app.call_tool(kept, "pinata_status", {})

        await again()  # whatever is loaded or built once
        first, next_ = await medians_ms(afresh, again, _ROUNDS)
    return [
        Figure(f"status page of {_TASKS:,} tasks, first", first, "ms", _LIMIT_MS),
        Figure(f"status page of {_TASKS:,} tasks, again", next_, "ms", _LIMIT_MS),
    ]


def _context(root: Path) -> Context:
    return app.build_context({**os.environ, "HOME": str(root.parent)}, root, Silence())
