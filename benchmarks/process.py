"""What a check costs over its bare command, and what much output costs in memory."""

import os
import subprocess
import sys
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import trio

from benchmarks.figure import Figure, medians_ms
from checks.proof import CheckProof
from checks.suite import SuiteSpec, run_suite
from engine.core.ids import CheckId
from engine.core.spec import CheckSpec
from engine.system.family import become_subreaper
from engine.system.output import ToFiles, ToMemory
from engine.system.process import ProcessSpec, run

_ENV = {"PATH": os.environ["PATH"]}
_GIGABYTE = 1_000_000_000


class _Silent:
    async def check_started(self, spec: CheckSpec) -> None:
        await trio.lowlevel.checkpoint()

    async def check_ended(self, proof: CheckProof) -> None:
        await trio.lowlevel.checkpoint()


async def figures() -> list[Figure]:
    with TemporaryDirectory() as scratch:
        return [
            await _marked(Path(scratch)),
            await _check(Path(scratch)),
            *[
                Figure(f"memory for 1 GB of output {where}", await _growth_mb(where), "MB", 32)
                for where in ("in files", "dropped")
            ],
        ]


async def _marked(scratch: Path) -> Figure:
    """Measure a call that also looks for what left its group, as every call of a run does."""
    become_subreaper()
    spec = ProcessSpec(argv=("true",), cwd=scratch, env=_ENV, mark="benchmark/true")
    ours, bare = await medians_ms(lambda: run(spec), lambda: _bare(scratch), rounds=100)
    return Figure("running a marked program, more than bare", ours - bare, "ms", 1.5)


async def _check(scratch: Path) -> Figure:
    spec = CheckSpec(CheckId("true"), ("true",))
    numbers = count()

    async def check() -> None:
        result = await run_suite(
            SuiteSpec(
                planned=[("checks", spec)],
                cwd=scratch,
                env=_ENV,
                log_dir=scratch / str(next(numbers)),
                mark="benchmark/check",
            ),
            progress=_Silent(),
            collected=[],
        )
        assert result.passed

    ours, bare = await medians_ms(check, lambda: _bare(scratch), rounds=100)
    return Figure("a check, more than its bare command", ours - bare, "ms", 5)


async def _bare(scratch: Path) -> None:
    def plain() -> None:
        subprocess.run(["true"], cwd=scratch, env=_ENV, capture_output=True, check=True)

    await trio.to_thread.run_sync(plain)


async def _growth_mb(where: str) -> float:
    """Return how far the memory of a process grew that did nothing but read a gigabyte."""
    argv = [sys.executable, "-m", __name__, where]
    done = await trio.run_process(argv, capture_stdout=True)
    return int(done.stdout) / 1024


async def _read_much(where: str) -> None:
    with TemporaryDirectory() as scratch:
        files = ToFiles(Path(scratch) / "out", Path(scratch) / "err", 2 * _GIGABYTE)
        spec = ProcessSpec(
            argv=("head", "-c", str(_GIGABYTE), "/dev/zero"),
            cwd=Path(scratch),
            env=_ENV,
            output=files if where == "in files" else ToMemory(1 << 20),
        )
        small = ProcessSpec(argv=("true",), cwd=Path(scratch), env=_ENV)
        await run(small)
        before = _peak_kb()
        ended = await run(spec)
        assert ended.code == 0
        print(_peak_kb() - before)


def _peak_kb() -> int:
    # ru_maxrss would also count what the parent had before this process became another program.
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


if __name__ == "__main__":
    trio.run(_read_much, sys.argv[1])
