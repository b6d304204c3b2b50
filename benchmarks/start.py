"""How long the program takes to answer at all."""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import trio

from benchmarks.figure import Figure, Step, medians_ms
from benchmarks.stored_run import make_run

# What `pinata status` cannot do without: both libraries, ready for use.
_LIBRARIES = "import trio; from pydantic import BaseModel, TypeAdapter"
_PROJECT = Path(__file__).resolve().parent.parent


async def figures() -> list[Figure]:
    version, _ = await medians_ms(_program("-m", "pinata", "--version"), _program("-c", ""), 9)
    with TemporaryDirectory() as scratch:
        root = Path(scratch) / "repo"
        await make_run(root, 1)
        status = _program("-m", "pinata", "status", cwd=root)
        ours, libraries = await medians_ms(status, _program("-c", _LIBRARIES, cwd=root), 15)
    return [
        Figure("pinata --version", version, "ms", 150),
        Figure("pinata status / its two libraries", ours, "ms", 1.5, libraries),
    ]


def _program(*arguments: str, cwd: Path | None = None) -> Step:
    env = {**os.environ, "PYTHONPATH": str(_PROJECT)}

    async def step() -> None:
        command = [sys.executable, *arguments]
        await trio.run_process(command, stdout=subprocess.DEVNULL, cwd=cwd, env=env)

    return step
