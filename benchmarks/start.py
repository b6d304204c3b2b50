"""How long the program takes to answer at all."""

import subprocess
import sys

import trio

from benchmarks.figure import Figure, Step, medians_ms


async def figures() -> list[Figure]:
    version, _ = await medians_ms(_program("-m", "pinata", "--version"), _program("-c", ""), 9)
    return [Figure("pinata --version", version, "ms", 150)]


def _program(*arguments: str) -> Step:
    async def step() -> None:
        await trio.run_process([sys.executable, *arguments], stdout=subprocess.DEVNULL)

    return step
