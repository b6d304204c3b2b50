"""What a session is told of its runs: each settlement once, whoever settled the run."""

import json
import stat
from pathlib import Path

import pytest
import trio

from engine.core.errors import ExternalError
from engine.core.events import RunResumed
from engine.core.ids import RunId
from engine.core.outcome import Status
from engine.records.event import encode_event
from engine.system import faults
from pinata.work.observer import OpenedRun
from pinata.work.owed import UnknownDeliveryError
from tests.support.hosted import hosted
from tests.support.projects import (
    Project,
    Recorder,
    approves,
    builder,
    reports,
    requests_changes,
    reviewer,
    scout,
    shell,
    submits,
)
from tests.support.repos import RepoBuilder

LOOK = [scout("look")]
SAYS = {"look": [reports("it is so")]}
HANGS = {"hang": True}


class Opened(Recorder):
    """Says when a run is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.event = trio.Event()

    def run_opened(self, run: OpenedRun) -> None:
        Recorder.run_opened(self, run)
        self.event.set()


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, {"a.txt": "a\n"})


async def test_end_in_the_background_is_told_until_it_is_confirmed(project: Project) -> None:
    async with hosted(project) as (deliveries, ends):
        begun = await project.run(LOOK, SAYS, background=True)
        run = begun["run"]
        await ends.wait_next()
        [found] = await deliveries.pending()
        assert (found.key, found.run, found.status) == (f"{run}/1", run, Status.SUCCEEDED)
        assert found.answer == await project.call("pinata_status", {"run": run})
        assert found.text == (
            f"Run {run} has ended: succeeded (1 succeeded). [delivery {run}/1]\n"
            "- look (scout): succeeded: did what was asked\n"
            f'Next: pinata_status {{"run": "{run}"}} tells all that was found.'
        )
        assert await deliveries.pending() == [found]
        for _ in range(2):
            await deliveries.confirm(found.key)
        assert await deliveries.pending() == []
    folder = Path(begun["dir"]) / "deliveries"
    assert [path.name for path in folder.iterdir()] == ["1"]
    assert stat.filemode(folder.stat().st_mode) == "drwx------"
    assert stat.filemode((folder / "1").stat().st_mode) == "-rw-------"
    confirmed = json.loads((folder / "1").read_text())
    size = (folder.parent / "events.jsonl").stat().st_size
    assert confirmed == {
        "kind": "delivered",
        "v": 1,
        "run": run,
        "settlement": 1,
        "log_bytes": size,
    }


async def test_answer_of_a_call_is_owed_until_the_client_confirms_it(project: Project) -> None:
    async with hosted(project) as (deliveries, ends):
        answer = await project.run(LOOK, SAYS)
        [found] = await deliveries.pending()
        assert (found.key, found.answer) == (f"{answer['run']}/1", answer)
        assert ends.heard == []
        await deliveries.confirm(found.key)
    async with hosted(project) as (deliveries, _):
        assert await deliveries.pending() == []


@pytest.mark.slow
async def test_settlement_that_a_later_one_overtook_is_told_in_a_sentence(
    project: Project,
) -> None:
    tasks = [builder("fix", "a.txt"), reviewer("judge", "fix")]
    script = {
        "fix": [shell("echo b > a.txt"), submits(changedFiles=["a.txt"])],
        "fix@2": [shell("echo c > a.txt"), submits(changedFiles=["a.txt"])],
        "judge": [requests_changes()],
        "judge@2": [approves()],
    }
    async with hosted(project) as (deliveries, _):
        run = (await project.run(tasks, script))["run"]
        [first] = await deliveries.pending()
        assert first.status is Status.FAILED
        repair = f'Next: pinata_repair {{"run": "{run}", "task": "fix", "feedback": "..."}} has fix'
        assert repair in first.text
    # By a person in a terminal, for a session that nobody serves.
    repaired = await project.call("pinata_repair", {"run": run, "task": "fix", "feedback": "say c"})
    assert repaired["status"] == "succeeded"
    async with hosted(project) as (deliveries, _):
        overtaken, newest = await deliveries.pending()
        assert (overtaken.key, overtaken.status) == (f"{run}/1", Status.FAILED)
        assert overtaken.text.startswith(f"Run {run} ended as failed")
        assert overtaken.text.endswith(f"and has ended again since then. [delivery {run}/1]")
        assert overtaken.answer["run"] == run
        assert "tasks" not in overtaken.answer
        assert (newest.key, newest.answer) == (f"{run}/2", repaired)
        assert (
            f'Next: pinata_changes {{"run": "{run}"}} shows the approved change, '
            f'pinata_integrate {{"run": "{run}"}} applies it.'
        ) in newest.text
        await deliveries.confirm(newest.key)
        assert [each.key for each in await deliveries.pending()] == [f"{run}/1"]


async def test_runs_of_other_repositories_are_told_too(project: Project, tmp_path: Path) -> None:
    other = RepoBuilder.create(tmp_path / "other", {"b.txt": "b\n"})
    async with hosted(project) as (deliveries, _):
        here = await project.run(LOOK, SAYS)
        there = await project.run(LOOK, SAYS, cwd="../other")
        assert Path(there["dir"]).is_relative_to(other.root)
        assert [each.run for each in await deliveries.pending()] == [here["run"], there["run"]]
        other.root.rename(tmp_path / "moved")
        assert [each.run for each in await deliveries.pending()] == [here["run"]]


async def test_run_of_another_session_is_not_told(project: Project) -> None:
    async with hosted(project):
        await project.run(LOOK, SAYS)
    async with hosted(project, "another") as (deliveries, _):
        assert await deliveries.pending() == []


async def test_run_whose_checkout_is_gone_is_told_all_the_same(
    project: Project, tmp_path: Path
) -> None:
    project.repo.git("worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    async with hosted(project) as (deliveries, _):
        run = (await project.run(LOOK, SAYS, cwd="../linked"))["run"]
        project.repo.git("worktree", "remove", "--force", str(tmp_path / "linked"))
        [found] = await deliveries.pending()
        assert (found.key, found.status) == (f"{run}/1", Status.SUCCEEDED)
        assert found.answer == {"run": run, "status": "succeeded", "error": found.answer["error"]}
        assert "linked is not a folder" in found.text


async def test_damaged_run_is_told_after_the_others_by_name(project: Project) -> None:
    async with hosted(project) as (deliveries, _):
        lost = await project.run(LOOK, SAYS)
        kept = await project.run(LOOK, SAYS)
        log = Path(lost["dir"]) / "events.jsonl"
        log.write_bytes(b"*" + log.read_bytes())
        whole, damaged = await deliveries.pending()
        assert whole.run == kept["run"]
        assert (damaged.key, damaged.status) == (f"{lost['run']}/0", Status.UNCERTAIN)
        assert damaged.text.startswith(f"What became of run {lost['run']} cannot be told")
        assert "line 1 is not a line of JSON" in damaged.answer["error"]
        await deliveries.confirm(damaged.key)
        assert await deliveries.pending() == [whole]


async def test_run_under_way_here_is_told_of_once_it_has_ended(project: Project) -> None:
    async with hosted(project) as (deliveries, ends):
        run = RunId((await project.run(LOOK, {"look": [HANGS]}, background=True))["run"])
        assert project.runtime is not None
        owned = project.runtime.find(run)
        assert owned is not None
        owned.request_cancel("no more")
        # Its log may say already that it has settled; its evidence is written after that.
        while project.runtime.find(run) is not None:
            told = await deliveries.pending()
            assert told == [] or project.runtime.find(run) is None
        await ends.wait_next()
        [found] = await deliveries.pending()
        assert (found.status, found.answer["reason"]) == (Status.CANCELLED, "no more")


async def test_call_that_is_given_up_is_announced_and_its_run_told(project: Project) -> None:
    async with hosted(project) as (deliveries, ends):
        opened = Opened()
        project.recorder = opened
        async with trio.open_nursery() as nursery:
            nursery.start_soon(project.run, LOOK, {"look": [HANGS]})
            await opened.event.wait()
            nursery.cancel_scope.cancel()
        await ends.wait_next()
        [found] = await deliveries.pending()
        assert (found.run, found.status) == (opened.runs[0], Status.CANCELLED)
        assert not ends.heard[0].is_in_background


@pytest.mark.parametrize("key", ["", "x", "0123456789abcdef", "0123456789abcdef/1x", "../x/1"])
async def test_key_that_no_delivery_has_is_refused(project: Project, key: str) -> None:
    async with hosted(project) as (deliveries, _):
        with pytest.raises(UnknownDeliveryError):
            await deliveries.confirm(key)


async def test_confirmation_that_cannot_be_written_is_told_and_the_run_told_again(
    project: Project,
) -> None:
    async with hosted(project) as (deliveries, _):
        run = (await project.run(LOOK, SAYS))["run"]
        faults.install("error:delivery.confirmed.started:1:ENOSPC")
        try:
            says = f"cannot save that delivery {run}/1 was confirmed: No space left"
            with pytest.raises(ExternalError, match=says):
                await deliveries.confirm(f"{run}/1")
        finally:
            faults.install("")
        assert [each.key for each in await deliveries.pending()] == [f"{run}/1"]


async def test_run_that_goes_on_while_it_is_looked_at_is_told_in_a_sentence(
    project: Project,
) -> None:
    async with hosted(project) as (deliveries, _):
        answer = await project.run(LOOK, SAYS)
        [owed] = await deliveries._look()
        log = Path(answer["dir"]) / "events.jsonl"
        seq = len(log.read_bytes().splitlines())
        with log.open("ab") as lines:
            event = RunResumed("a test says so")
            lines.write(encode_event(event, seq=seq, run=owed.run, at_ms=1))
        [(_, found)] = await deliveries._told(owed)
        assert found.text == (
            f"Run {owed.run} ended as succeeded, and goes on since then. [delivery {owed.run}/1]"
        )
        assert found.answer == {"run": owed.run, "status": "succeeded"}
