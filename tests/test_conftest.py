"""The fixtures that watch over every test do see what they watch for."""

import os
import subprocess
import sys
from pathlib import Path

import filelock
import pygit2
import pytest
import trio

from tests.support.children import end_children
from tests.support.guard import blocking_allowed


async def test_flushing_on_the_loops_thread_raises(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file, pytest.raises(AssertionError, match="fsync"):
        os.fsync(file.fileno())


async def test_locking_on_the_loops_thread_raises(tmp_path: Path) -> None:
    lock = filelock.FileLock(tmp_path / "lock")
    with pytest.raises(AssertionError, match="acquire"):
        lock.acquire()


async def test_spawning_on_the_loops_thread_raises() -> None:
    with pytest.raises(AssertionError, match="Popen"):
        subprocess.Popen(["true"])  # noqa: ASYNC220  (that is what the guard is for)


async def test_opening_a_repository_on_the_loops_thread_raises(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="Repository"):
        pygit2.Repository(str(tmp_path))


async def test_blocking_is_fine_in_a_worker_thread_and_where_it_is_meant(tmp_path: Path) -> None:
    await trio.to_thread.run_sync(subprocess.check_call, ["true"])
    with blocking_allowed():
        (tmp_path / "file").touch()
        with (tmp_path / "file").open("rb") as file:
            os.fsync(file.fileno())


def test_a_child_that_is_left_behind_is_named_and_ended() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True
    )
    assert child.stdin is not None
    [described] = end_children()
    child.stdin.close()
    assert described.startswith(f"{child.pid} ")
    assert end_children() == []
    child.wait()  # it was collected above; this only tells Popen so


def test_git_sees_the_empty_configuration_of_the_test() -> None:
    listed = subprocess.run(["git", "config", "--list"], check=True, capture_output=True, cwd="/")
    assert listed.stdout == b""
    assert not [name for name in os.environ if name.startswith("PINATA_")]
