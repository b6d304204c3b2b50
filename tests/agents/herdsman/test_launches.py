"""What is written down before an agent starts, and what is ended of agents whose hosts are dead."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agents.herdsman.identity import GenerationId
from agents.herdsman.launches import end_orphans, is_alive, recorded_launch, stamp
from agents.herdsman.premises import Premises
from agents.herdsman.record import ProcessStamp
from engine.core.errors import ConflictError
from engine.system.identity import identify
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
