"""Tests of `agents.herdsman.mailbox_locks`, and of what mailboxes are locked by."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from agents.herdsman.errors import Category, HerdError
from agents.herdsman.identity import Label
from agents.herdsman.mailbox_locks import (
    LIFECYCLE_PATIENCE_S,
    activation_lock,
    delegation_lock,
    label_lock,
    lifecycle_lock,
)
from agents.herdsman.premises import Premises
from agents.herdsman.record import Contents
from tests.support.guard import blocking_allowed
from tests.support.herd_boxes import Full, box_of, premises_at
from tests.support.herd_records import LEAD, TASK, WORKSPACE, session, state_of
from tests.support.programs import Beacon, open_beacon

ROOT = Path(__file__).resolve().parents[3]
SCOUT = state_of("scout", active=TASK)

# Takes a mailbox and its label if it can, and keeps them until its input ends.
CLAIMER = """
import sys, trio
from pathlib import Path
from agents.herdsman.errors import HerdError
from tests.support.herd_boxes import box_of, premises_at

def report(what):
    with open(sys.argv[2], "w") as beacon:
        beacon.write(what + "\\n")

async def main():
    report("ready")
    await trio.to_thread.run_sync(sys.stdin.readline)
    try:
        mailbox = box_of(premises_at(Path(sys.argv[1])))
        async with mailbox.claim_start(), mailbox.claim():
            report("won")
            await trio.to_thread.run_sync(sys.stdin.read)
    except HerdError as error:
        report(error.trouble.category.value)

trio.run(main)
"""


@pytest.fixture
def premises(tmp_path: Path) -> Premises:
    return premises_at(tmp_path)


@pytest.fixture
def beacon(tmp_path: Path) -> Iterator[Beacon]:
    with open_beacon(tmp_path) as opened:
        yield opened


class Claimer:
    """Another process that claims the mailbox of the scout."""

    def __init__(self, folder: Path, beacon: Beacon) -> None:
        argv = [sys.executable, "-c", CLAIMER, str(folder), str(beacon.path)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with blocking_allowed():
            self._child = subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, env=environment)

    def begin(self) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(b"\n")
        self._child.stdin.flush()

    def kill(self) -> None:
        self._child.send_signal(signal.SIGKILL)
        self._child.communicate()


async def refused(lock: AbstractAsyncContextManager[None], category: Category) -> HerdError:
    with pytest.raises(HerdError) as caught:
        async with lock:
            pass
    assert caught.value.trouble.category is category
    return caught.value


Lock = Callable[[Premises], AbstractAsyncContextManager[None]]
CLAIMS: list[tuple[Lock, Category]] = [
    (lambda premises: box_of(premises).claim(patience_s=0), Category.AGENT_BUSY),
    (lambda premises: box_of(premises).claim_start(), Category.AGENT_LABEL_EXISTS),
    (lambda premises: delegation_lock(premises, WORKSPACE, LEAD), Category.AGENT_BUSY),
    (lambda premises: activation_lock(premises, "/sessions/one.jsonl"), Category.AGENT_BUSY),
    (lambda premises: label_lock(premises, LEAD, Label("scout")), Category.AGENT_LABEL_EXISTS),
]
OTHERS: list[Lock] = [
    lambda premises: box_of(premises, "tester").claim(),
    lambda premises: box_of(premises, workspace="/other").claim(),
    lambda premises: box_of(premises, "tester").claim_start(),
    lambda premises: delegation_lock(premises, WORKSPACE, session("other")),
    lambda premises: delegation_lock(premises, "/other", LEAD),
    lambda premises: activation_lock(premises, "/sessions/two.jsonl"),
    lambda premises: label_lock(premises, LEAD, Label("tester")),
    lambda premises: label_lock(premises, session("other"), Label("scout")),
    lambda premises: lifecycle_lock(premises, WORKSPACE),
    lambda premises: lifecycle_lock(premises, "/other"),
]


@pytest.mark.parametrize(("lock", "category"), CLAIMS)
async def test_what_is_claimed_is_refused_to_everybody_else_until_it_is_free(
    premises: Premises, lock: Lock, category: Category
) -> None:
    async with lock(premises):
        error = await refused(lock(premises), category)
        assert error.trouble.next_action
    async with lock(premises):
        pass


async def test_locks_of_different_things_do_not_meet(premises: Premises) -> None:
    every = [*(lock for lock, _ in CLAIMS), *OTHERS]
    async with trio.open_nursery() as nursery:
        held = []

        async def take(lock: Lock) -> None:
            async with lock(premises):
                held.append(lock)
                while len(held) < len(every):
                    await trio.lowlevel.checkpoint()

        for lock in every:
            nursery.start_soon(take, lock)


async def test_who_has_it_is_told(premises: Premises) -> None:
    async with box_of(premises).claim():
        error = await refused(box_of(premises).claim(patience_s=0), Category.AGENT_BUSY)
        assert str(error) == "the mailbox of scout is held by a test"


async def test_a_session_is_the_same_by_whatever_path(premises: Premises, tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    folder.mkdir()
    (tmp_path / "link").symlink_to(folder)
    async with activation_lock(premises, str(folder / "one.jsonl")):
        other = activation_lock(premises, str(tmp_path / "link" / "one.jsonl"))
        await refused(other, Category.AGENT_BUSY)


async def test_an_agents_side_waits_for_its_mailbox(
    premises: Premises, herd_clock: MockClock
) -> None:
    order: list[str] = []

    async def wait_for_it(name: str) -> None:
        async with box_of(premises).hold():
            order.append(name)

    async with trio.open_nursery() as nursery, box_of(premises).claim():
        nursery.start_soon(wait_for_it, "agent")
        await trio.sleep(3)
        order.append("owner")
    assert order == ["owner", "agent"]


async def test_a_task_that_is_cancelled_lets_its_lock_go_at_once(premises: Premises) -> None:
    for lock in (box_of(premises).claim, box_of(premises).hold):
        with trio.CancelScope() as scope:
            async with lock():
                scope.cancel()
                await trio.sleep_forever()
        async with box_of(premises).claim():
            pass


async def test_what_fails_inside_a_lock_is_not_taken_for_a_lock_that_is_held(
    premises: Premises,
) -> None:
    async with box_of(premises, "tester").claim():
        with pytest.raises(HerdError, match="the mailbox of tester is held"):
            async with box_of(premises).claim(), box_of(premises, "tester").claim(patience_s=0):
                pass
    with pytest.raises(OSError, match="disk"):
        async with box_of(premises).hold():
            raise OSError("the disk is broken")


async def test_starts_and_ends_of_others_are_waited_for_a_while(
    premises: Premises, herd_clock: MockClock
) -> None:
    taken, given_back = trio.Event(), trio.Event()

    async def take_long() -> None:
        async with lifecycle_lock(premises, WORKSPACE):
            taken.set()
            await given_back.wait()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take_long)
        await taken.wait()
        begun_s = trio.current_time()
        error = await refused(lifecycle_lock(premises, WORKSPACE), Category.AGENT_BUSY)
        assert "longer than 30 s" in str(error)
        assert trio.current_time() - begun_s >= LIFECYCLE_PATIENCE_S
        given_back.set()
    async with lifecycle_lock(premises, WORKSPACE):
        pass


@pytest.mark.parametrize("kind", ["folder", "link"])
async def test_a_lock_that_cannot_be_verified_is_left_alone(premises: Premises, kind: str) -> None:
    mailbox = box_of(premises)
    async with mailbox.claim(), mailbox.claim_start():
        paths = list(premises.locks.iterdir())
    for path in paths:
        path.unlink()
        path.mkdir() if kind == "folder" else path.symlink_to("elsewhere")
    before = sorted(premises.locks.iterdir())
    for lock in (mailbox.claim, mailbox.hold, mailbox.claim_start):
        error = await refused(lock(), Category.INTERNAL_FAILURE)
        assert "cannot lock" in str(error)
    assert sorted(premises.locks.iterdir()) == before


async def test_what_is_written_in_a_lock_decides_nothing(premises: Premises) -> None:
    async with box_of(premises).claim():
        [path] = premises.locks.iterdir()
    path.write_bytes(b"\xff{ 4711 of another boot")
    async with box_of(premises).claim():
        pass


@pytest.mark.parametrize("lock", [lambda box: box.claim(), lambda box: box.hold()])
async def test_where_no_lock_can_be_made_nothing_is_locked(
    premises: Premises, lock: Callable[[object], AbstractAsyncContextManager[None]]
) -> None:
    premises.root.mkdir(parents=True)
    (premises.root / "runtime").write_text("no folder")
    await refused(lock(box_of(premises)), Category.INTERNAL_FAILURE)


async def test_a_label_that_is_claimed_is_occupied_and_shown_as_starting(
    premises: Premises,
) -> None:
    mailbox = box_of(premises)
    async with mailbox.claim_start():
        assert await mailbox.is_occupied()
        await mailbox.write_state(SCOUT, creates=True)
        assert await mailbox.read() == Contents(SCOUT, is_starting=True)
    assert await mailbox.read() == Contents(SCOUT)
    assert await mailbox.is_occupied()


async def test_a_mailbox_is_removed_under_its_startup_claim(premises: Premises) -> None:
    full = await Full.at(premises)
    async with full.mailbox.claim_start():
        async with full.mailbox.claim():
            await full.mailbox.remove()
        assert not await full.mailbox.exists()
        await refused(full.mailbox.claim_start(), Category.AGENT_LABEL_EXISTS)
    assert not await full.mailbox.is_occupied()
    async with full.mailbox.claim_start():
        pass


@pytest.mark.slow
async def test_of_two_processes_one_has_the_locks_of_a_dead_third(
    premises: Premises, tmp_path: Path, beacon: Beacon
) -> None:
    dead = Claimer(tmp_path, beacon)
    assert await beacon.line() == "ready"
    dead.begin()
    assert await beacon.line() == "won"
    await refused(box_of(premises).claim(patience_s=0), Category.AGENT_BUSY)
    await refused(box_of(premises).claim_start(), Category.AGENT_LABEL_EXISTS)
    assert await box_of(premises).is_occupied()
    rivals = [Claimer(tmp_path, beacon), Claimer(tmp_path, beacon)]
    assert [await beacon.line() for _ in rivals] == ["ready", "ready"]
    dead.kill()
    for rival in rivals:
        rival.begin()
    assert sorted([await beacon.line() for _ in rivals]) == ["agent_label_exists", "won"]
    for rival in rivals:
        rival.kill()
    assert not await box_of(premises).is_occupied()
    async with box_of(premises).claim_start(), box_of(premises).claim():
        pass
