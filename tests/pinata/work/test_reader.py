"""What a reader is told and tells about the live checkout, through the public tool."""

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from engine.core.events import AttemptSettled, CheckoutChanged, Event, UsageReported
from engine.core.ids import AttemptId, TaskId
from engine.records.event import Logged
from pinata.work.observer import OpenedRun
from tests.support.projects import (
    PASS,
    Project,
    Recorder,
    Turn,
    builder,
    read,
    reports,
    says,
    scout,
    shell,
    statuses,
    submits,
    task_of,
)

GIT = shutil.which("git")
READS: dict[str, list[Turn]] = {"*": [reports()]}


@dataclass(slots=True)
class Listener(Recorder):
    """A recorder that can be waited for."""

    _heard: trio.Event = field(default_factory=trio.Event)

    def happened(self, logged: Logged) -> None:
        self.events.append(logged.event)
        self._heard.set()

    async def wait(self, kind: type[Event], count: int) -> None:
        """Return once `count` events of a kind happened and every task waits for a program."""
        while sum(isinstance(event, kind) for event in self.events) < count:
            self._heard = trio.Event()
            await self._heard.wait()
        threads = trio.to_thread.current_default_thread_limiter()
        await wait_all_tasks_blocked()
        while threads.borrowed_tokens:
            await wait_all_tasks_blocked()


@dataclass(frozen=True, slots=True)
class Moments:
    """A Git that does something of the test's own when the checkout is looked at.

    It stands in front of the real one on the PATH. So what happens between two looks at the
    checkout happens exactly there, however fast the agent is.
    """

    folder: Path

    @classmethod
    def prepare(cls, project: Project) -> "Moments":
        folder = project.folder / "moments"
        folder.mkdir()
        program = folder / "git"
        program.write_text(
            f"""#!/bin/sh
            case " $GIT_WORK_TREE $* " in
            " {project.repo.root} "*" status "*"--untracked-files=all "*)
                echo >> {folder}/looks
                number=$(wc -l < {folder}/looks)
                [ ! -f {folder}/before-$number ] || (
                    unset GIT_INDEX_FILE
                    cd {project.repo.root}
                    . {folder}/before-$number
                ) || exit
                if [ -f {folder}/after-$number ]; then
                    {GIT} "$@" && unset GIT_INDEX_FILE && . {folder}/after-$number >&2
                    exit
                fi
            esac
            exec {GIT} "$@"
            """
        )
        program.chmod(0o755)
        os.mkfifo(folder / "gate")
        project.repo.env["PATH"] = f"{folder}{os.pathsep}{project.repo.env['PATH']}"
        return cls(folder)

    def before(self, look: int, script: str) -> None:
        """Run `script` in the checkout right before it is looked at for the `look`-th time."""
        (self.folder / f"before-{look}").write_text(script)

    def after(self, look: int, script: str) -> None:
        """Run `script` in the checkout once Git has taken in the index and files of a look."""
        (self.folder / f"after-{look}").write_text(script)

    def hold(self, look: int) -> None:
        """Let the `look`-th look wait for `release`."""
        self.before(look, f"read -r line < {self.folder}/gate")

    async def release(self) -> None:
        """Let the look that waits go on."""
        await trio.to_thread.run_sync((self.folder / "gate").write_text, "go\n")

    @property
    def looks(self) -> int:
        """How often the checkout was looked at."""
        noted = self.folder / "looks"
        return len(noted.read_text().splitlines()) if noted.exists() else 0


@pytest.fixture
def project(tmp_path: Path) -> Project:
    files: dict[str, str | bytes] = {"a.txt": "one\n", "b.txt": "b\n", ".gitignore": "*.log\n"}
    project = Project.create(tmp_path, files)
    project.recorder = Listener()
    return project


@pytest.fixture
def moments(project: Project) -> Moments:
    return Moments.prepare(project)


def listener(project: Project) -> Listener:
    """Return the project's recorder."""
    assert isinstance(project.recorder, Listener)
    return project.recorder


def changed(project: Project) -> list[AttemptId]:
    """Return the attempts that an event says it of."""
    events = project.recorder.events
    return [event.attempt for event in events if isinstance(event, CheckoutChanged)]


async def test_edit_while_one_reads_is_told_of_that_reader_and_not_of_a_later_one(
    project: Project, moments: Moments
) -> None:
    moments.before(2, "echo edited > a.txt")
    answer = await project.run([scout("look"), scout("later", after=["look"])], READS)
    assert statuses(answer) == {"look": "succeeded", "later": "succeeded"}
    assert [task.get("checkoutChanged") for task in answer["tasks"]] == [True, None]
    found = [await project.result(answer["run"], name) for name in ("look", "later")]
    assert [result["checkoutChanged"] for result in found] == [True, False]
    assert changed(project) == [AttemptId(TaskId("look"), 1)]
    assert moments.looks == 4


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo more >> b.txt", True),
        ("echo more >> new.txt", True),
        ("rm a.txt", True),
        ("chmod +x a.txt", True),
        ("git -c user.name=x -c user.email=x@x commit -q --allow-empty -m same", True),
        ("touch a.txt b.txt", False),
        ("echo more >> some.log", False),
        ("git branch other", False),
    ],
    ids=[
        "second-edit-of-a-modified-file",
        "second-edit-of-an-untracked-file",
        "deletion",
        "mode",
        "commit-of-the-same-tree",
        "new-times",
        "ignored-file",
        "branch",
    ],
)
async def test_what_counts_as_a_change_is_content_and_head(
    project: Project, moments: Moments, script: str, *, expected: bool
) -> None:
    project.repo.write("b.txt", "modified\n")
    project.repo.write("new.txt", "untracked\n")
    moments.before(2, script)
    answer = await project.run([scout("look")], READS)
    result = await project.result(answer["run"], "look")
    assert (result["status"], result["checkoutChanged"]) == ("succeeded", expected)
    assert ("checkoutChanged" in task_of(answer, "look")) is expected


async def test_staging_alone_is_no_change(project: Project, moments: Moments) -> None:
    project.repo.write("b.txt", "modified\n")
    project.repo.write("new.txt", "untracked\n")
    moments.after(1, "git add b.txt new.txt")
    answer = await project.run([scout("look")], READS)
    result = await project.result(answer["run"], "look")
    assert project.repo.git("diff", "--cached", "--name-only") == b"b.txt\nnew.txt\n"
    assert (result["status"], result["checkoutChanged"]) == ("succeeded", False)


@pytest.mark.parametrize("look", [1, 2], ids=["start", "end"])
async def test_change_is_unknown_when_the_checkout_cannot_be_measured(
    project: Project, moments: Moments, look: int
) -> None:
    moments.before(look, "echo edited > a.txt; echo out of luck >&2; exit 128")
    answer = await project.run([scout("look")], READS)
    task = task_of(answer, "look")
    assert task["status"] == "succeeded"
    assert "checkoutChanged" not in task
    (notice,) = task["notices"]
    assert notice.startswith("whether the checkout changed meanwhile is unknown: git ")
    assert "out of luck" in notice
    assert changed(project) == []


async def test_change_is_told_of_a_reader_that_fails_too(
    project: Project, moments: Moments
) -> None:
    moments.before(2, "echo edited > a.txt")
    answer = await project.run([scout("look")], {"look": [{"text": "I give up"}]})
    task = task_of(answer, "look")
    assert (task["status"], task["checkoutChanged"]) == ("failed", True)


@dataclass(slots=True)
class Spoiler(Listener):
    """Puts a file where a run's conversations are to be kept."""

    runs_folder: Path = field(default_factory=Path)

    def run_opened(self, run: OpenedRun) -> None:
        kept = self.runs_folder / run.id / "transcripts"
        kept.rmdir()
        kept.touch()


async def test_change_is_told_of_a_reader_whose_conversation_cannot_be_kept(
    project: Project, moments: Moments
) -> None:
    moments.before(2, "echo edited > a.txt")
    project.recorder = Spoiler(runs_folder=project.repo.root / ".git" / "pinata")
    answer = await project.run([scout("look")], READS)
    task = task_of(answer, "look")
    assert (task["status"], task["checkoutChanged"]) == ("failed", True)
    assert "transcripts" in task["reason"]


async def test_agent_does_not_wait_for_the_first_look(project: Project, moments: Moments) -> None:
    moments.hold(1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(project.run, [scout("look")], READS)
        await listener(project).wait(UsageReported, 1)
        assert moments.looks == 1
        await moments.release()
    assert moments.looks == 2


async def test_thirty_readers_that_settle_together_cost_few_looks(
    project: Project, moments: Moments
) -> None:
    answers: list[dict[str, Any]] = []

    async def run() -> None:
        names = [f"look-{number}" for number in range(30)]
        config = {"limits": {"concurrency": 32}}
        answers.append(await project.run([scout(name) for name in names], READS, config=config))

    project.let_work(32)
    moments.hold(1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await listener(project).wait(UsageReported, 30)
        await moments.release()
    assert set(statuses(answers[0]).values()) == {"succeeded"}
    # Two for those that began after the first look, and two more for the end of all.
    assert 2 <= moments.looks <= 4
    assert changed(project) == []


async def test_writer_of_the_same_run_does_not_change_the_checkout_for_a_reader(
    project: Project, moments: Moments
) -> None:
    script: dict[str, list[Turn]] = {
        "look": [reports()],
        "fix": [shell("echo two > a.txt"), submits(changedFiles=["a.txt"])],
    }
    answers: list[dict[str, Any]] = []

    async def run() -> None:
        answers.append(await project.run([scout("look"), builder("fix", "a.txt")], script))

    moments.hold(3)  # the snapshot is the first look, and the reader's second is to wait
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await listener(project).wait(AttemptSettled, 1)
        await moments.release()
    assert statuses(answers[0]) == {"look": "succeeded", "fix": "succeeded"}
    result = await project.result(answers[0]["run"], "look")
    assert result["checkoutChanged"] is False


async def test_evidence_checks_of_readers_share_the_looks(
    project: Project, moments: Moments
) -> None:
    tasks = [scout("look", evidenceChecks=[{"id": "proof", "argv": PASS}])]
    answer = await project.run(tasks, READS)
    assert statuses(answer) == {"look": "succeeded"}
    assert moments.looks == 4


@pytest.mark.parametrize("name", ["auth.json", "models.json"])
async def test_reader_is_not_shown_the_keys_of_models(name: str, tmp_path: Path) -> None:
    project = Project.create(tmp_path, {"a.txt": "one\n"})
    folder = Path(project.env["HOME"]) / ".pi" / "agent"
    folder.mkdir(parents=True)
    (folder / name).write_text("{}")
    turn = says("read", path=f"~/.pi/agent/{name}")
    answer = await project.run([scout("look")], {"look": [turn, reports()]})
    transcript = (await project.result(answer["run"], "look"))["transcript"]
    assert "holds the user's keys for models, which no agent reads" in read(transcript)
