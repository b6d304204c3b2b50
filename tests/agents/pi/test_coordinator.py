"""A person's real Pi with our extension: what its model and its person see of runs."""

import json
import os
import re
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.support.coordinators import RESULT, CoordinatorPi, Desk, open_desk
from tests.support.live import agents_left
from tests.support.programs import Beacon, is_running, open_beacon, wait_end
from tests.support.projects import (
    Project,
    approves,
    builder,
    reports,
    reviewer,
    says,
    scout,
    shell,
    statuses,
    submits,
)

pytestmark = [pytest.mark.slow, pytest.mark.unmeasured]

END = re.compile(r"Run (\w+) has ended: (\w+)")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, {"a.txt": "one\n"})


@pytest.fixture
async def desk(project: Project) -> AsyncIterator[Desk]:
    async with open_desk(project) as opened:
        yield opened
    assert agents_left(project) == []


@pytest.fixture
def beacon(tmp_path: Path) -> Iterator[Beacon]:
    os.mkfifo(tmp_path / "go")
    with open_beacon(tmp_path) as opened:
        yield opened


async def test_reviewed_change_goes_in_is_verified_and_comes_out_again(desk: Desk) -> None:
    project = desk.project
    file = project.repo.root / "a.txt"
    script = {
        "look": [says("read", path="a.txt"), reports("it says one")],
        "fix": [shell("sleep 0.6; echo two > a.txt"), submits(changedFiles=["a.txt"])],
        "judge": [approves()],
    }
    checks = [{"id": "says-two", "argv": ["grep", "-q", "two", "a.txt"]}]
    tasks = [scout("look"), builder("fix", "a.txt", after=["look"]), reviewer("judge", "fix")]
    job = project.job(tasks, script, integratedChecks=checks)
    async with desk.pi() as pi:
        desk.mind.will_say(says("pinata_run", **job))
        await pi.prompt("Have it fixed.")
        (answer,) = pi.tool_results("pinata_run")
        assert statuses(answer) == dict.fromkeys(("look", "fix", "judge"), "succeeded")
        assert file.read_text() == "one\n"
        updates = [r for r in pi.records if r["type"] == "tool_execution_update"]
        said = [each["partialResult"]["content"][0]["text"] for each in updates]
        assert any("fix: bash sleep" in text for text in said), said
        run = answer["run"]
        desk.mind.will_say(says("pinata_changes", run=run), says("pinata_integrate", run=run))
        await pi.prompt("Apply it.")
        (changes,) = pi.tool_results("pinata_changes")
        assert [each["task"] for each in changes["builders"]] == ["fix"]
        (applied,) = pi.tool_results("pinata_integrate")
        assert applied["status"] == "verified"
        assert file.read_text() == "two\n"
        desk.mind.will_say(says("pinata_verify", run=run))
        await pi.prompt("Is it so?")
        (verified,) = pi.tool_results("pinata_verify")
        assert (verified["status"], verified["application"]) == ("verified", "exact")
        desk.mind.will_say(says("pinata_rollback", run=run, confirm=True))
        await pi.prompt("Take it back.")
        assert file.read_text() == "one\n"
        assert project.repo.git("status", "--porcelain") == b""
        widgets = [each.get("widgetLines") for each in pi.of_method("setWidget")]
        assert any(lines and "fix" in lines[1] for lines in widgets), widgets
        assert widgets[-1] is None
        assert f"run {run[:8]} succeeded" in await pi.types("/pinata status")
    assert desk.told() == [f"{run}/1"]


def paused(project: Project, beacon: Beacon, **fields: Any) -> dict[str, Any]:
    """Return a job in the background whose builder says its shell's number and waits."""
    pause = shell(f"echo $$ > {beacon.path}; read line < {beacon.path.with_name('go')}")
    change = [shell("echo two > a.txt"), submits(changedFiles=["a.txt"])]
    return project.job(
        [builder("fix", "a.txt")], {"fix": [pause, *change]}, background=True, **fields
    )


async def let_go(beacon: Beacon) -> None:
    await trio.to_thread.run_sync(beacon.path.with_name("go").write_text, "\n")


def is_result(record: dict[str, Any]) -> bool:
    message = record["message"] if record["type"] == "message_end" else {}
    return bool(message.get("customType") == RESULT)


def has_ended(record: dict[str, Any]) -> bool:
    """Whether it says that no run works any more."""
    return record.get("method") == "setStatus" and "statusText" not in record


def results(pi: CoordinatorPi) -> list[str]:
    """Return what the conversation was told on its own."""
    return [record["message"]["content"] for record in pi.records if is_result(record)]


async def begin(desk: Desk, pi: CoordinatorPi, job: dict[str, Any]) -> str:
    """Have a run begun by the session's model, and return its id."""
    desk.mind.will_say(says("pinata_run", **job))
    await pi.prompt("Begin.")
    begun = pi.tool_results("pinata_run")[-1]
    assert isinstance(begun, dict), begun
    run: str = begun["run"]
    return run


async def test_idle_session_is_woken_once_and_busy_one_hears_after_its_turn(
    desk: Desk, beacon: Beacon
) -> None:
    async with desk.pi() as pi:
        first = await begin(desk, pi, paused(desk.project, beacon))
        await beacon.pid()
        asked, since = len(desk.mind.heard), len(pi.records)
        await let_go(beacon)
        await pi.settled(since)
        (told,) = results(pi)
        assert told.startswith(f"Run {first} has ended: succeeded")
        assert len(desk.mind.heard) == asked + 1
        second = await begin(desk, pi, paused(desk.project, beacon))
        await beacon.pid()
        # In a long call of its own, which ends after the run has.
        hold = desk.project.folder / "hold"
        os.mkfifo(hold)
        desk.mind.will_say(shell(f"echo $$ > {beacon.path}; read line < {hold}; echo held"))
        since = len(pi.records)
        await pi.ask("prompt", message="Wait for me.")
        await beacon.pid()
        await let_go(beacon)
        await pi.until(has_ended, since)
        assert len(results(pi)) == 1
        await trio.to_thread.run_sync(hold.write_text, "\n")
        await pi.until(is_result, since)
        await pi.settled(len(pi.records))
        assert [text.split()[1] for text in results(pi)] == [first, second]
    assert desk.told() == [f"{first}/1", f"{second}/1"]


async def test_end_is_told_once_whoever_was_killed_in_between(desk: Desk, beacon: Beacon) -> None:
    async with desk.pi() as pi:
        first = await begin(desk, pi, paused(desk.project, beacon))
        await beacon.pid()
        await pi.kill()
    await let_go(beacon)
    async with desk.pi() as pi:
        await pi.until(is_result)
        await pi.settled()
        since = len(pi.records)
        waited = paused(desk.project, beacon) | {"background": False}
        desk.mind.will_say(says("pinata_run", **waited))
        await pi.ask("prompt", message="Wait for it.")
        await beacon.pid()
        for bridge in desk.bridges():
            os.kill(bridge, signal.SIGKILL)
        await pi.settled(since)
        assert pi.tool_results("pinata_run")[-1].startswith("the way to pinata broke")
        (second,) = {*desk.project.runs} - {first}
        since = len(pi.records)
        await let_go(beacon)
        await pi.until(is_result, since)
        await pi.settled(since)
        third = await begin(desk, pi, paused(desk.project, beacon))
        agent = await beacon.pid()
        since = len(pi.records)
        for host in desk.hosts():
            os.kill(host, signal.SIGKILL)
        await pi.until(is_result, since)
        await pi.settled(since)
        assert not is_running(agent)
        assert any("had lost its owner" in notice for notice in pi.notices(since))
        ends = [tuple(END.findall(text)[0]) for text in results(pi)]
        assert ends == [(first, "succeeded"), (second, "succeeded"), (third, "failed")]
        assert "1 cancelled" in results(pi)[-1]
    # A confirmation that was lost on its way: it is told again, and known again.
    confirmed = desk.project.repo.root / ".git/pinata" / first / "deliveries" / "1"
    confirmed.unlink()
    async with desk.pi() as pi:
        while not confirmed.exists():
            await trio.lowlevel.checkpoint()
        assert (await pi.types("/pinata runs")).count("\n") == 2
        assert results(pi) == []
    assert desk.told() == [f"{run}/1" for run in (first, second, third)]


async def test_end_is_told_once_over_a_reload_and_to_the_session_that_it_belongs_to(
    desk: Desk, beacon: Beacon
) -> None:
    reloader = desk.project.folder / "reloader.ts"
    reloader.write_text(
        'export default (pi) => pi.registerCommand("again", '
        "{ handler: async (_, ctx) => { await ctx.reload(); } });\n"
    )
    async with desk.pi("-e", str(reloader)) as pi:
        first = await begin(desk, pi, paused(desk.project, beacon))
        await beacon.pid()
        since = len(pi.records)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(let_go, beacon)
            await pi.ask("prompt", message="/again")
        await pi.until(is_result, since)
        await pi.settled(since)
        second = await begin(desk, pi, paused(desk.project, beacon))
        await beacon.pid()
        file = (await pi.ask("get_state"))["sessionFile"]
        await pi.ask("new_session")
        since = len(pi.records)
        await let_go(beacon)
        while (await desk.project.call("pinata_status", {"run": second}))["status"] == "running":
            await trio.lowlevel.checkpoint()
        assert f"run {second[:8]} succeeded" in await pi.types("/pinata status")
        assert not any(map(is_result, pi.records[since:]))
        await pi.ask("switch_session", sessionPath=file)
        await pi.until(is_result, since)
        await pi.settled(since)
        assert [text.split()[1] for text in results(pi)] == [first, second]
    assert desk.told() == [f"{first}/1", f"{second}/1"]
    # The one of the new session would wait a minute for that to come back.
    for host in desk.hosts():
        with suppress(ProcessLookupError):
            os.kill(host, signal.SIGTERM)


async def test_escape_ends_a_run_that_is_waited_for_and_loses_no_other_end(
    desk: Desk, beacon: Beacon
) -> None:
    async with desk.pi() as pi:
        waited = paused(desk.project, beacon) | {"background": False}
        desk.mind.will_say(says("pinata_run", **waited))
        await pi.ask("prompt", message="Wait for it.")
        agent = await beacon.pid()
        asked = len(desk.mind.heard)
        await pi.ask("abort")
        await pi.until(is_result)
        assert not is_running(agent)
        (run,) = desk.project.runs
        told = f"Run {run}, whose call was given up, has ended: cancelled."
        assert (results(pi), len(desk.mind.heard)) == ([told], asked)
        other = await begin(desk, pi, paused(desk.project, beacon))
        await beacon.pid()
        desk.mind.will_say(shell(f"echo $$ > {beacon.path}; sleep 600"))
        since = len(pi.records)
        await pi.ask("prompt", message="Sleep.")
        await beacon.pid()
        await let_go(beacon)
        await pi.until(has_ended, since)
        asked = len(desk.mind.heard)
        # As Escape does in a terminal.
        await pi.ask("clear_queue")
        await pi.ask("abort")
        await pi.until(is_result, since)
        assert len(desk.mind.heard) == asked
        assert desk.told() == [f"{run}/1", f"{other}/1"]
        # The result is saved while the session settles, and until then it takes no prompt.
        await pi.settled(since)
        await pi.prompt("What is new?")
        said = json.dumps(desk.mind.heard[-1].body)
        assert f"Run {other} has ended: succeeded" in said


async def test_person_who_quits_finds_what_survived_and_what_did_not(
    desk: Desk, beacon: Beacon
) -> None:
    hangs = desk.project.folder / "hangs.json"
    hangs.write_text(json.dumps({"look": [{"hang": True}]}))
    model = {"provider": "scripted", "id": str(hangs), "thinking": "off"}
    mortal = {"tasks": [scout("look")], "config": {"models": {"default": model}}}
    async with desk.pi() as pi:
        survivor = await begin(desk, pi, paused(desk.project, beacon, survive=True))
        await beacon.pid()
        other = await begin(desk, pi, mortal | {"background": True})
    (host,) = desk.hosts()
    assert not desk.bridges()
    await let_go(beacon)
    await wait_end(host)
    async with desk.pi() as pi:
        await pi.until(is_result)
        await pi.settled()
        told = "\n".join(results(pi))
        assert f"Run {survivor} has ended: succeeded" in told
        assert f"Run {other} has ended: cancelled" in told
    assert sorted(desk.told()) == sorted([f"{survivor}/1", f"{other}/1"])
