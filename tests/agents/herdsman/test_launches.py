"""What is written down before an agent starts, and what is ended of agents whose hosts are dead."""

import json
import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import trio

from agents.herdsman.identity import GenerationId
from agents.herdsman.launches import end_orphans, is_alive, recorded_launch, stamp
from agents.herdsman.premises import Premises
from agents.herdsman.record import ProcessStamp
from engine.core.errors import ConflictError, ExternalError
from engine.system.identity import identify, now_ticks
from engine.system.strays import MARK_VARIABLE
from tests.support.clock import FakeClock
from tests.support.guard import blocking_allowed
from tests.support.programs import is_running, wait_end

GENERATION = GenerationId("6f9d2c1e-0000-4000-8000-000000000001")


@pytest.fixture
def premises(tmp_path: Path) -> Premises:
    return Premises(tmp_path / "pinata", FakeClock(), "a test")


def own() -> ProcessStamp:
    found = identify(os.getpid())
    assert found is not None
    return stamp(found)


def dead() -> ProcessStamp:
    """Return a process that has ended."""
    with blocking_allowed(), subprocess.Popen(["sleep", "60"]) as child:
        found = identify(child.pid)
        child.kill()
    assert found is not None
    return stamp(found)


@contextmanager
def carrying(mark: str) -> Iterator[int]:
    """Have a process inside the block that carries a mark, and yield its number."""
    env = {**os.environ, MARK_VARIABLE: f"{mark}/agent"}
    with blocking_allowed():
        child = subprocess.Popen(["sleep", "60"], env=env)
    try:
        yield child.pid
    finally:
        with blocking_allowed():
            child.kill()
            child.wait()


@contextmanager
def no_descriptors_left() -> Iterator[None]:
    """Have this process unable to open anything inside the block."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_mark_is_durable_for_as_long_as_the_agent_is_there(premises: Premises) -> None:
    async with recorded_launch(premises, GENERATION, own()) as mark:
        record = json.loads((premises.launches / GENERATION / "launch.json").read_text())
        assert record["mark"] == mark
        assert record["host"]["pid"] == os.getpid()
        assert (premises.launches / GENERATION).stat().st_mode & 0o777 == 0o700
    assert list(premises.launches.iterdir()) == []


async def test_what_a_dead_host_left_running_is_ended(premises: Premises) -> None:
    # As its host would have left it, killed before it could remove anything.
    folder = premises.launches / GENERATION
    async with recorded_launch(premises, GENERATION, dead()) as mark:
        record = (folder / "launch.json").read_bytes()
    folder.mkdir()
    (folder / "launch.json").write_bytes(record)
    with carrying(mark) as child:
        assert is_running(child)
        await end_orphans(premises)
        await wait_end(child)
    assert not folder.exists()


async def test_agents_of_a_living_host_are_left_alone(premises: Premises) -> None:
    async with recorded_launch(premises, GENERATION, own()) as mark:
        with carrying(mark) as child:
            await end_orphans(premises)
            assert is_running(child)
        assert (premises.launches / GENERATION).exists()


async def test_damaged_record_ends_nothing_and_is_kept(
    premises: Premises, caplog: pytest.LogCaptureFixture
) -> None:
    folder = premises.launches / GENERATION
    folder.mkdir(parents=True)
    (folder / "launch.json").write_text("{}")
    (premises.launches / "none of ours").mkdir()
    await end_orphans(premises)
    assert folder.exists()
    assert "is damaged" in caplog.text


MARK = "0123456789abcdef0123456789abcdef"


def abandon(
    premises: Premises, host: ProcessStamp, *named: ProcessStamp, mark: str = MARK, **more: Any
) -> Path:
    """Leave a launch behind as a killed host would, whose ledger names these processes."""
    folder = premises.launches / GENERATION
    folder.mkdir(parents=True)
    told = {"v": 1, "mark": mark, "host": asdict(host), **more}
    (folder / "launch.json").write_text(json.dumps(told))
    lines = [json.dumps(["agent", one.pid, one.start_ticks, one.boot_id]) + "\n" for one in named]
    (folder / "processes.jsonl").write_text("".join(lines))
    return folder


def stamp_of(pid: int) -> ProcessStamp:
    found = identify(pid)
    assert found is not None
    return stamp(found)


@pytest.mark.parametrize("mark", ["", "aa", MARK + "0", MARK.upper(), MARK[:-1] + "\n"])
async def test_mark_of_another_form_ends_nothing(
    premises: Premises, mark: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder = abandon(premises, dead(), mark=mark)
    with carrying(mark) as child:
        await end_orphans(premises)
        assert is_running(child)
    assert folder.exists()
    assert "is damaged" in caplog.text


@pytest.mark.parametrize("pid", [0, (1 << 22) + 1, 10**300], ids=["none", "one more", "huge"])
async def test_host_that_is_no_process_makes_a_record_damaged(
    premises: Premises, pid: int, caplog: pytest.LogCaptureFixture
) -> None:
    folder = abandon(premises, ProcessStamp(pid, 1, "boot"))
    await end_orphans(premises)
    assert folder.exists()
    assert "is damaged" in caplog.text


async def test_recorded_process_that_shed_its_mark_is_ended(premises: Premises) -> None:
    host, began_ticks = dead(), now_ticks()
    with carrying("nobody") as child:
        folder = abandon(premises, host, stamp_of(child), began_ticks=began_ticks)
        await end_orphans(premises)
        await wait_end(child)
    assert not folder.exists()


@pytest.mark.parametrize("notes_time", [True, False])
async def test_recorded_process_that_is_older_than_the_launch_is_somebody_elses(
    premises: Premises, *, notes_time: bool
) -> None:
    with carrying("nobody") as child:
        began = stamp_of(child)
        # Of a launch that notes no time, the start of its host tells what is too old.
        later = began.start_ticks + 1
        host = replace(dead(), start_ticks=began.start_ticks if notes_time else later)
        more: dict[str, Any] = {"began_ticks": later} if notes_time else {}
        folder = abandon(premises, host, began, **more)
        await end_orphans(premises)
        assert is_running(child)
    assert not folder.exists()


async def test_launch_notes_when_it_began(premises: Premises) -> None:
    before = now_ticks()
    async with recorded_launch(premises, GENERATION, own()) as mark:
        record = json.loads((premises.launches / GENERATION / "launch.json").read_text())
        with carrying(mark) as child:
            assert before <= record["began_ticks"] <= stamp_of(child).start_ticks


async def test_launches_that_cannot_be_listed_are_said_and_nothing_else_happens(
    premises: Premises, caplog: pytest.LogCaptureFixture
) -> None:
    premises.launches.parent.mkdir(parents=True)
    premises.launches.write_text("a file")
    await end_orphans(premises)
    assert "what dead hosts started may be left" in caplog.text


async def test_launch_whose_ledger_cannot_be_read_is_kept_for_the_next_time(
    premises: Premises, caplog: pytest.LogCaptureFixture
) -> None:
    folder = abandon(premises, dead())
    (folder / "processes.jsonl").unlink()
    (folder / "processes.jsonl").mkdir()
    await end_orphans(premises)
    assert folder.exists()
    assert f"what {GENERATION} started may be left" in caplog.text


async def test_without_descriptors_nothing_is_ended_and_the_launch_is_kept(
    premises: Premises, caplog: pytest.LogCaptureFixture
) -> None:
    folder = abandon(premises, dead())
    await trio.to_thread.run_sync(lambda: None)  # starting a thread takes no descriptor later
    with no_descriptors_left():
        await end_orphans(premises)
    assert folder.exists()
    assert "Too many open files" in caplog.text


def test_it_cannot_be_told_without_descriptors_what_runs() -> None:
    mine = own()
    with no_descriptors_left(), pytest.raises(ExternalError, match="cannot tell whether process"):
        is_alive(mine)
    assert is_alive(mine)


async def test_launch_that_cannot_be_written_down_is_refused(premises: Premises) -> None:
    premises.root.mkdir()
    (premises.root / "runtime").write_text("a file")
    with pytest.raises(ConflictError, match="is not a folder"):
        async with recorded_launch(premises, GENERATION, own()):
            raise AssertionError


async def test_process_is_told_from_a_later_one_with_its_number() -> None:
    mine = own()
    assert is_alive(mine)
    assert not is_alive(ProcessStamp(mine.pid, mine.start_ticks + 1, mine.boot_id))
    assert not is_alive(ProcessStamp(mine.pid, mine.start_ticks, "another boot"))
