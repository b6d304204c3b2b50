"""A process that applies changes, or takes them back, in children that may be told to die.

Starting Python costs more than applying a change, so one process is started, and it forks once for
each job.
"""

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from engine.core.changes import Change, ChangeStatus, quote_path, unquote_path
from engine.core.ids import BlobId
from engine.system import faults
from tests.support.checkouts import Setting
from tests.support.movers import forget_renameat2
from worktrees.apply import execute, load_journal, renew, resume, rollback
from worktrees.hygiene import Repository
from worktrees.state import measure

RENEWED = "f" * 64


class Forker:
    """The test's end: hands out jobs and waits for how each ended."""

    def __init__(self, process: "subprocess.Popen[str]", *, in_steps: bool) -> None:
        self._process = process
        self._in_steps = in_steps

    def run(self, setting: Setting, work: str, plan: str) -> int:
        """Do `work` under a fault plan; return its exit code.

        `work` is one of `prepare`, `renew`, `execute`, `resume` and `rollback`.

        The code is negative when a signal ended it, and 1 when it failed.
        """
        changes = [
            [quote_path(c.path), c.status.value, c.old_mode, c.new_mode, c.old_blob, c.new_blob]
            for c in setting.changes
        ]
        job = [work, plan, str(setting.repo.root), str(setting.folder), changes, self._in_steps]
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


@contextmanager
def open_forker(env: dict[str, str], *, in_steps: bool) -> Iterator[Forker]:
    """Start the process; it ends with the block.

    Args:
        env: its environment.
        in_steps: whether its C library is one without renameat2(2).
    """
    process = subprocess.Popen(
        [sys.executable, "-m", __name__],
        env={**env, "PYTHONPATH": str(Path.cwd())},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        yield Forker(process, in_steps=in_steps)


async def do(setting: Setting, work: str) -> None:
    """Do `work` on the setting."""
    if work == "prepare":
        await setting.prepare()
        return
    journal = await load_journal(setting.folder)
    assert journal is not None
    if work == "renew":
        triple = await measure(setting.repo, setting.repo.common_dir)
        await renew(
            setting.repo, setting.changes, evidence_digest=RENEWED, triple=triple, upon=journal
        )
    elif work == "execute":
        await execute(journal)
    elif work == "resume":
        await resume(setting.repo, journal)
    else:
        await rollback(setting.repo, journal)


def _serve() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                _do_job(line)
                code = 0
            except BaseException:  # noqa: BLE001 - shown, since the child does not end as programs do
                traceback.print_exc()
            finally:
                # Not sys.exit: the buffers and the input are the parent's.
                os._exit(code)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def _do_job(line: str) -> None:
    work, plan, top, folder, rows, in_steps = json.loads(line)
    if in_steps:
        forget_renameat2(pytest.MonkeyPatch())
    changes = tuple(
        Change(unquote_path(path), ChangeStatus(status), old, new, BlobId(before), BlobId(after))
        for path, status, old, new, before, after in rows
    )
    root = Path(top)
    repo = Repository(root, root / ".git", root / ".git", dict(os.environ))
    faults.install(plan)
    trio.run(do, Setting(repo, changes, {}, {}, Path(folder)), work)


if __name__ == "__main__":
    _serve()
