"""`pinata pi` and the host that it starts: real processes, killed and met again."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.lowlevel

from pinata.work.host import LEAVING
from tests.support.bridges import Bridge, Pi, pi_in
from tests.support.live import agents_left
from tests.support.programs import Beacon, is_running, open_beacon, wait_end
from tests.support.projects import (
    Project,
    Task,
    approves,
    builder,
    reviewer,
    shell,
    statuses,
    submits,
)

pytestmark = [pytest.mark.slow, pytest.mark.unmeasured]

ONE_AT_A_TIME = {"limits": {"concurrency": 1}}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, {"a.txt": "one\n"})


@pytest.fixture
def pi(project: Project) -> Iterator[Pi]:
    with pi_in(project) as found:
        yield found
    assert agents_left(project) == []


@pytest.fixture
def beacon(tmp_path: Path) -> Iterator[Beacon]:
    os.mkfifo(tmp_path / "go")
    with open_beacon(tmp_path) as opened:
        yield opened


def paused(project: Project, beacon: Beacon, *more: Task, **fields: Any) -> dict[str, Any]:
    """Return a job in the background whose builders say their shell's number and wait.

    The one of a.txt is reviewed where `more` has somebody who does that.
    """
    pause = shell(f"echo $$ > {beacon.path}; read line < {beacon.path.with_name('go')}")
    change = [shell("echo two > a.txt"), submits(changedFiles=["a.txt"])]
    script = {"fix": [pause, *change], "judge": [approves()], "next": [pause]}
    return project.job([builder("fix", "a.txt"), *more], script, background=True, **fields)


def starts(run: str) -> list[str]:
    """Return the tasks that got an agent, as often as they did."""
    log = (Path(run) / "events.jsonl").read_text()
    events = [json.loads(line) for line in log.splitlines()]
    return [event["agent"] for event in events if event["type"] == "agent_started"]


async def let_go(beacon: Beacon) -> None:
    await trio.to_thread.run_sync(beacon.path.with_name("go").write_text, "\n")


async def test_killed_session_finds_its_run_again_and_hears_its_end_once(
    pi: Pi, beacon: Beacon
) -> None:
    with trio.fail_after(120):
        async with pi.attached() as bridge:
            begun = (await bridge.answer("pinata_run", **paused(pi.project, beacon)))["answer"]
            await beacon.pid()
            first = pi.host
            await bridge.kill()
        async with pi.attached() as bridge:
            assert pi.host == first
            shown = (await bridge.answer("pinata_status"))["answer"]
            assert statuses(shown) == {"fix": "running"}
            await let_go(beacon)
            told = await bridge.expect("delivery")
            assert (told["run"], told["status"]) == (begun["run"], "succeeded")
            # Told, and not confirmed.
            await bridge.kill()
        async with pi.attached() as bridge:
            assert (await bridge.acked())["delivery"] == told["delivery"]
            await bridge.leave("reload")
        async with pi.attached() as bridge:
            assert (await bridge.answer("runs"))["type"] == "result"
            await bridge.leave("quit")
        await wait_end(first)
    assert not pi.session.host_file.exists()


async def test_host_that_was_killed_is_followed_by_one_that_comes_home(
    pi: Pi, beacon: Beacon
) -> None:
    with trio.fail_after(120):
        async with pi.attached() as bridge:
            job = paused(pi.project, beacon, builder("next", "b.txt"), config=ONE_AT_A_TIME)
            begun = (await bridge.answer("pinata_run", **job))["answer"]
            agent, first = await beacon.pid(), pi.host
            os.kill(first, signal.SIGKILL)
            assert await bridge.receive() is None
            assert await bridge.process.wait() == 0
        await wait_end(first)
        assert pi.session.host_file.exists()
        async with pi.started() as bridge:
            welcome = await bridge.expect("welcome")
            assert pi.host != first
            (notice,) = welcome["notices"]
            assert notice.startswith(f"run {begun['run']} had lost its owner and goes on here")
            assert not is_running(agent)
            agent, second = await beacon.pid(), pi.host
            shown = (await bridge.answer("pinata_status"))["answer"]
            assert statuses(shown) == {"fix": "cancelled", "next": "running"}
            await bridge.answer("pinata_cancel", run=begun["run"])
            told = await bridge.acked()
            assert (told["run"], told["status"]) == (begun["run"], "cancelled")
            assert statuses(told["answer"]) == {"fix": "cancelled", "next": "cancelled"}
            assert not is_running(agent)
            await bridge.leave("quit")
        await wait_end(second)


async def test_two_that_start_at_once_end_up_at_one_host(pi: Pi) -> None:
    with trio.fail_after(120):
        async with pi.started() as one, pi.started() as other, trio.open_nursery() as nursery:
            displaced = []

            async def watch(bridge: Bridge) -> None:
                while (frame := await bridge.receive()) is not None:
                    if frame["type"] == "displaced":
                        displaced.append(bridge)
                        nursery.cancel_scope.cancel()

            nursery.start_soon(watch, one)
            nursery.start_soon(watch, other)
        assert len(displaced) == 1
        host = pi.host
        assert pi.hosts_alive() == [host]
        os.kill(host, signal.SIGTERM)
        await wait_end(host)


async def test_surviving_run_outlives_its_session_and_its_host_leaves_after_it(
    pi: Pi, beacon: Beacon
) -> None:
    with trio.fail_after(120):
        async with pi.attached() as bridge:
            job = paused(pi.project, beacon, reviewer("judge", "fix"), survive=True)
            begun = (await bridge.answer("pinata_run", **job))["answer"]
            await beacon.pid()
            host = pi.host
            await bridge.leave("quit")
        assert is_running(host)
        await let_go(beacon)
        await wait_end(host)
        async with pi.attached() as bridge:
            told = await bridge.acked()
            assert (told["run"], told["status"]) == (begun["run"], "succeeded")
            assert statuses(told["answer"]) == {"fix": "succeeded", "judge": "succeeded"}
            assert starts(begun["dir"]) == ["fix", "judge"]
            host = pi.host
            await bridge.leave("quit")
        await wait_end(host)


async def test_signal_ends_a_host_and_its_runs_in_order(pi: Pi, beacon: Beacon) -> None:
    with trio.fail_after(120):
        async with pi.attached() as bridge:
            job = paused(pi.project, beacon, survive=True)
            await bridge.answer("pinata_run", **job)
            agent, host = await beacon.pid(), pi.host
            os.kill(host, signal.SIGINT)
            await bridge.answer("runs")
            os.kill(host, signal.SIGTERM)
            said = await bridge.expect("refused")
            assert said["error"] == "the host of this session was ended"
            assert await bridge.receive() is None
        await wait_end(host)
        assert not is_running(agent)
        shown = await pi.project.call("pinata_status", {})
        assert (shown["status"], shown["tasks"][0]["reason"]) == ("cancelled", LEAVING)
        log = pi.session.log_file.read_text()
        assert "Traceback" not in log
        assert "attached -> gone" in log


async def test_what_no_host_can_be_had_for_is_told_in_a_sentence(pi: Pi) -> None:
    with trio.fail_after(60):
        async with pi.started(XDG_STATE_HOME="/proc/nowhere") as bridge:
            error = (await bridge.expect("refused"))["error"]
            assert error.startswith("cannot save the session: ")
            assert await bridge.receive() is None
            assert await bridge.process.wait() == 1
        async with pi.started(PINATA_AGENT="1", says_hello=False) as bridge:
            error = (await bridge.expect("refused"))["error"]
            assert error.startswith("this is an agent's or a check's environment")
            assert await bridge.process.wait() == 4


def test_odd_key_is_refused(pi: Pi) -> None:
    done = pi.project.pinata("pi", "--session", "two\nlines")
    says = "a session's key is 1 to 200 printable characters"
    assert (done.returncode, done.stderr) == (2, f"pinata: {says}\n")
    assert json.loads(done.stdout) == {"type": "refused", "error": says}
