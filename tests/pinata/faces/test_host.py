"""A host with real runs, in this process, as a client at its socket sees it."""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from engine.core.ids import RunId
from pinata import app
from pinata.faces import cli
from pinata.faces.host import HostFace
from pinata.tools import runs
from pinata.work import host_life
from pinata.work.context import Context
from pinata.work.host import Setting, open_host
from pinata.work.host_client import attach
from pinata.work.host_server import HostServer
from pinata.work.session import Session
from pinata.work.settlement import settle
from tests.support.hosts import Client, Frame
from tests.support.programs import Beacon, open_beacon
from tests.support.projects import (
    Project,
    builder,
    reports,
    reviewer,
    scout,
    shell,
    statuses,
    submits,
)

pytestmark = pytest.mark.slow


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, {"a.txt": "one\n"})


@pytest.fixture
def beacon(tmp_path: Path) -> Iterator[Beacon]:
    os.mkfifo(tmp_path / "go")
    with open_beacon(tmp_path) as opened:
        yield opened


@asynccontextmanager
async def hosted(project: Project) -> AsyncIterator[HostServer]:
    """Have a host of the session `s1` inside the block."""
    session = Session.of("s1", project.env)
    traffic = app.new_traffic()
    face = HostFace(session, project.env, traffic)
    setting = Setting(project.env, "1.2.3", (), traffic, herd=face.open_herd)
    # What never happens fails the test that waits for it.
    with trio.fail_after(60):
        async with open_host(session, setting, face.works_with) as host:
            yield host


@asynccontextmanager
async def attached(project: Project) -> AsyncIterator[Client]:
    session = Session.of("s1", project.env)
    cwd = str(project.repo.root)
    first = {"type": "hello", "v": 1, "role": "session", "session": "s1", "cwd": cwd}
    attachment = await attach(session, {}, first)
    async with attachment.stream as stream:
        client = Client(stream, attachment.heard)
        await client.expect("welcome")
        yield client


async def call(client: Client, tool: str, id_: int = 1, **arguments: Any) -> None:
    await client.send(type="call", id=id_, tool=tool, arguments=arguments)


async def answer(client: Client, tool: str, id_: int = 1, **arguments: Any) -> Frame:
    """Call a tool and return the frame with its answer."""
    await call(client, tool, id_, **arguments)
    return await after_progress(client)


async def after_progress(client: Client) -> Frame:
    while (frame := await client.receive()) is not None:
        if frame["type"] != "progress":
            return frame
    raise AssertionError("closed")


def paused(project: Project, beacon: Beacon, **fields: Any) -> dict[str, Any]:
    """Return a job whose builder says that it is at work, and goes on when it is let go."""
    pause = shell(f"echo $$ > {beacon.path}; read line < {beacon.path.with_name('go')}")
    change = [shell("echo two > a.txt"), submits(changedFiles=["a.txt"])]
    script = {"fix": [pause, *change]}
    return project.job([builder("fix", "a.txt")], script, **fields)


async def let_go(beacon: Beacon) -> None:
    await trio.to_thread.run_sync(beacon.path.with_name("go").write_text, "\n")


async def test_result_of_a_call_is_confirmed_and_never_told_again(project: Project) -> None:
    job = project.job([scout("look")], {"look": [reports()]})
    async with hosted(project):
        async with attached(project) as client:
            frame = await answer(client, "pinata_run", **job)
            assert statuses(frame["answer"]) == {"look": "succeeded"}
            assert frame["delivery"] == f"{frame['answer']['run']}/1"
            await client.silence()
        async with attached(project) as client:
            told = await client.expect("delivery")
            assert told["delivery"] == frame["delivery"]
            await client.send(type="ack", delivery=told["delivery"])
            # The answer comes after the ack was taken.
            assert (await answer(client, "runs"))["type"] == "result"
        async with attached(project) as client:
            await client.silence()


async def test_end_of_a_run_in_the_background_is_told(project: Project) -> None:
    job = project.job([scout("look")], {"look": [reports()]}, background=True)
    async with hosted(project), attached(project) as client:
        begun = (await answer(client, "pinata_run", **job))["answer"]
        told = await client.expect("delivery")
        assert (told["run"], told["status"]) == (begun["run"], "succeeded")
        assert told["text"].startswith(f"Run {begun['run']} has ended: succeeded")
        assert statuses(told["answer"]) == {"look": "succeeded"}


async def test_run_goes_on_without_its_client_and_tells_the_next(
    project: Project, beacon: Beacon
) -> None:
    async with hosted(project):
        async with attached(project) as client:
            await call(client, "pinata_run", **paused(project, beacon))
            await beacon.pid()
        async with attached(project) as client:
            shown = (await answer(client, "pinata_status"))["answer"]
            assert statuses(shown) == {"fix": "running"}
            await let_go(beacon)
            told = await client.expect("delivery")
            assert statuses(told["answer"]) == {"fix": "succeeded"}


async def test_cancelled_call_is_answered_by_what_became_of_its_run(
    project: Project, beacon: Beacon
) -> None:
    async with hosted(project), attached(project) as client:
        await call(client, "pinata_run", **paused(project, beacon))
        await beacon.pid()
        await client.send(type="cancel", id=1)
        frame = await after_progress(client)
        assert frame["answer"]["status"] == "cancelled"
        assert frame["answer"]["tasks"][0]["reason"] == "cancelled by the coordinator"
        assert frame["delivery"].endswith("/1")


async def test_session_that_ends_leaves_surviving_runs_alone(
    project: Project, beacon: Beacon
) -> None:
    async with hosted(project) as host:
        async with attached(project) as client:
            job = paused(project, beacon, background=True, survive=True)
            begun = (await answer(client, "pinata_run", **job))["answer"]
            await beacon.pid()
            looking = project.job([scout("look")], {"look": [{"hang": True}]}, background=True)
            other = (await answer(client, "pinata_run", **looking))["answer"]
            await client.send(type="goodbye", reason="quit")
            assert await client.receive() is None
        await let_go(beacon)
        await host.wait_left()
    async with hosted(project), attached(project) as client:
        told = [await client.expect("delivery") for _ in range(2)]
    assert {one["run"]: one["status"] for one in told} == {
        begun["run"]: "succeeded",
        other["run"]: "cancelled",
    }


async def test_session_that_never_comes_back_ends_what_does_not_survive_it_after_the_grace(
    project: Project, beacon: Beacon, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hosted(project) as host:
        async with attached(project) as client:
            job = paused(project, beacon, background=True, survive=True)
            survivor = (await answer(client, "pinata_run", **job))["answer"]["run"]
            await beacon.pid()
            looking = project.job([scout("look")], {"look": [{"hang": True}]}, background=True)
            other = (await answer(client, "pinata_run", **looking))["answer"]["run"]
            monkeypatch.setattr(host_life, "GRACE_S", 0.05)
        while (await project.call("pinata_status", {"run": other}))["status"] == "running":
            await trio.lowlevel.checkpoint()
        await let_go(beacon)
        await host.wait_left()
    monkeypatch.undo()
    async with hosted(project), attached(project) as client:
        told = [await client.expect("delivery") for _ in range(2)]
    assert {one["run"]: one["status"] for one in told} == {
        survivor: "succeeded",
        other: "cancelled",
    }
    (reason,) = {one["answer"]["reason"] for one in told if one["run"] == other}
    assert reason == "the session has been away for 0.05 s"


async def test_eight_runs_go_on_beside_each_other_and_one_that_raises_ends_alone(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = project.job([scout("look")], {"look": [reports()]})
    settled = list[RunId]()

    async def settle_or_break(context: Context, repository: Any, folder: Any) -> Frame:
        settled.append(folder.run)
        if len(settled) == 3:
            raise ZeroDivisionError
        return await settle(context, repository, folder)

    monkeypatch.setattr(runs, "settle", settle_or_break)
    async with hosted(project), attached(project) as client:
        for number in range(8):
            await call(client, "pinata_run", number, **job)
        frames = [await after_progress(client) for _ in range(9)]
        results = [frame for frame in frames if frame["type"] == "result"]
        assert [frame["answer"]["status"] for frame in results] == ["succeeded"] * 7
        (broken,) = (frame for frame in frames if frame["type"] == "error")
        assert broken["error"] == (
            f"run {settled[2]} broke off by a fault of pinata: ZeroDivisionError"
        )
        # It had settled before, and nobody was told in an answer.
        (told,) = (frame for frame in frames if frame["type"] == "delivery")
        assert (told["run"], told["status"]) == (settled[2], "succeeded")


async def test_commands_of_people_can_be_called_and_others_are_refused(project: Project) -> None:
    async with hosted(project), attached(project) as client:
        assert (await answer(client, "runs"))["answer"] == {"runs": []}
        assert (await answer(client, "gc"))["type"] == "result"
        for tool in ("resume", "rerun"):
            refused = await answer(client, tool, run="ab")
            assert refused["error"].startswith('unknown run "ab"')
        assert (await answer(client, "fly"))["error"].startswith("unknown tool 'fly'")


async def test_reviewed_change_is_integrated_by_a_call(project: Project) -> None:
    script = {
        "fix": [shell("echo two > a.txt"), submits(changedFiles=["a.txt"])],
        "judge": [submits(review={"verdict": "approve"})],
    }
    job = project.job([builder("fix", "a.txt"), reviewer("judge", "fix")], script)
    async with hosted(project), attached(project) as client:
        run = (await answer(client, "pinata_run", **job))["answer"]["run"]
        applied = (await answer(client, "pinata_integrate", run=run))["answer"]
        assert applied["status"] == "applied_unverified"
    assert (project.repo.root / "a.txt").read_text() == "two\n"


def test_odd_keys_and_agents_have_no_host(
    project: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    for key in ("two\nlines", "k" * 10_000, ""):
        assert cli.main(["host", f"--session={key}"], project.env) == 2
        says = "a session's key is 1 to 200 printable characters"
        assert capfd.readouterr().err == f"pinata: {says}\n"
    assert cli.main(["host", "--session=a"], {**project.env, "PINATA_AGENT": "1"}) == 4
    assert "only the coordinator may change anything" in capfd.readouterr().err
