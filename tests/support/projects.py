"""A repository with scripted agents, driven as a face drives it, or as a person does."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import trio

from agents.models.scripted import PROVIDER as SCRIPTED
from agents.traffic import Traffic
from engine.core.events import Event, Trace
from engine.core.ids import RunId
from engine.records.event import Logged
from pinata import app
from pinata.work.observer import Cancel, OpenedRun
from pinata.work.runtime import Announce, Runtime, open_runtime
from pinata.work.session import Session
from tests.support.repos import RepoBuilder
from tests.support.rooms import grown_limiter
from tests.support.starter import start

Turn = dict[str, Any]
Task = dict[str, Any]

PASS = [sys.executable, "-c", "raise SystemExit(0)"]
LEAVING = "the test has left"
FAIL = [sys.executable, "-c", "raise SystemExit(3)"]


def says(tool: str, **arguments: object) -> Turn:
    """Return a turn that calls one tool."""
    return {"calls": [{"tool": tool, "arguments": arguments}]}


def shell(command: str) -> Turn:
    """Return a turn that runs a shell command."""
    return says("bash", command=command)


def submits(status: str = "succeeded", **fields: Any) -> Turn:
    """Return a turn that hands in a result."""
    result = {
        "status": status,
        "summary": "did what was asked",
        "changedFiles": [],
        "checks": [],
        "findings": [],
        "blockers": [],
    }
    return says("submit_result", **{**result, **fields})


def reports(brief: str = "it is so", **fields: Any) -> Turn:
    """Return a turn in which a reader hands in an answer."""
    return submits(brief=brief, **fields)


def approves(**fields: Any) -> Turn:
    """Return a turn in which a reviewer approves."""
    return submits(review={"verdict": "approve"}, **fields)


def requests_changes(**fields: Any) -> Turn:
    """Return a turn in which a reviewer does not approve."""
    return submits(review={"verdict": "changes_requested"}, **fields)


def builder(id_: str, *ownership: str, **fields: object) -> Task:
    """Return a builder's task; without checks unless they are given."""
    task = {"id": id_, "agent": "builder", "task": f"do {id_}", "ownership": list(ownership)}
    if "checks" not in fields:
        task["noChecksReason"] = "a test needs none"
    return task | fields


def reviewer(id_: str, of: str, **fields: object) -> Task:
    """Return the task of reviewing a builder's change."""
    task = {"id": id_, "agent": "reviewer", "task": f"judge {of}", "after": [of], "reviewOf": of}
    return task | fields


def scout(id_: str, **fields: object) -> Task:
    """Return a reader's task."""
    return {"id": id_, "agent": "scout", "task": f"look at {id_}"} | fields


@dataclass(slots=True)
class Recorder:
    """An observer that keeps what it hears."""

    events: list[Event] = field(default_factory=list)
    traces: list[Trace] = field(default_factory=list)
    runs: list[RunId] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    cancel: Cancel | None = None

    def run_opened(self, run: OpenedRun) -> None:
        self.runs.append(run.id)
        self.notices += run.notices
        self.cancel = run.cancel

    def happened(self, logged: Logged) -> None:
        self.events.append(logged.event)

    def noted(self, event: Trace) -> None:
        self.traces.append(event)


@dataclass(slots=True)
class Project:
    """A repository and a script beside it."""

    repo: RepoBuilder
    folder: Path
    recorder: Recorder = field(default_factory=Recorder)
    # What several calls share, as in a process that answers all of them; None gives each its own.
    traffic: Traffic | None = None
    # The runs of a process that outlives its calls; None where each call is a process of its own.
    runtime: Runtime | None = None
    # Who makes the calls, where somebody is told of what became of its runs.
    session: Session | None = None

    @classmethod
    def create(cls, folder: Path, files: dict[str, str | bytes] | None = None) -> Self:
        """Make the repository `folder/repo`."""
        return cls(RepoBuilder.create(folder / "repo", files), folder)

    @property
    def env(self) -> dict[str, str]:
        """The environment of whoever calls pinata here."""
        return self.repo.env | {"XDG_STATE_HOME": str(self.folder / "state")}

    @property
    def runs(self) -> list[str]:
        """The ids of all runs that were ever made, whole or not."""
        made = self.repo.root / ".git" / "pinata"
        return sorted(e.name for e in made.iterdir() if e.name != "locks") if made.is_dir() else []

    def refs(self) -> dict[str, str]:
        """Every ref of the repository."""
        listing = self.repo.git("for-each-ref", "--format=%(refname) %(objectname)").decode()
        return dict(line.split(" ") for line in listing.splitlines())

    def job(
        self, tasks: Sequence[Task], script: Mapping[str, Sequence[Turn]], **fields: object
    ) -> dict[str, Any]:
        """Return a job whose agents follow `script`, which is written to disk."""
        path = self.folder / "script.json"
        path.write_text(json.dumps(script))
        config = fields.pop("config", {})
        assert isinstance(config, dict)
        model = {"provider": "scripted", "id": str(path), "thinking": "off"}
        job = {"tasks": list(tasks), "config": {"models": {"default": model}} | config}
        if any(task["agent"] == "builder" for task in tasks):
            job["approval"] = "the test says so"
        return job | fields

    async def call(self, tool: str, arguments: object) -> dict[str, Any]:
        """Call a tool as a face does."""
        context = app.build_context(self.env, self.repo.root, self.recorder, traffic=self.traffic)
        if self.runtime is not None:
            context = context.within(self.runtime)
        context = replace(context, session=self.session)
        return await app.call_tool(context, tool, arguments)

    async def run(
        self, tasks: Sequence[Task], script: Mapping[str, Sequence[Turn]], **fields: object
    ) -> dict[str, Any]:
        """Run a job and return its summary."""
        return await self.call("pinata_run", self.job(tasks, script, **fields))

    def let_work(self, agents: int) -> Traffic:
        """Let so many scripted agents work at once from now on, over all calls."""
        self.traffic = Traffic(grown_limiter(SCRIPTED, agents), lambda: 0.5)
        return self.traffic

    @asynccontextmanager
    async def owning(self, announce: Announce | None = None) -> AsyncIterator[Runtime]:
        """Let all calls inside the block be calls of one process that owns their runs."""
        more: dict[str, Any] = {} if announce is None else {"announce": announce}
        # What never happens fails the test that waits for it.
        with trio.fail_after(60):
            async with open_runtime(app.new_traffic(), leaving=LEAVING, **more) as runtime:
                self.runtime = runtime
                try:
                    yield runtime
                finally:
                    self.runtime = None

    async def result(self, run: str, task: str) -> dict[str, Any]:
        """Return a task's whole saved result."""
        arguments = {"run": run, "task": task, "detail": "result"}
        return await self.call("pinata_status", arguments)

    def pinata(
        self, *arguments: str, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run the `pinata` command as a person does, in a process of its own.

        What it takes over from this thread, such as dropped privileges, or what others see of how
        it was called, needs `python("-m", "pinata", ...)`, which is slower.
        """
        whole = self.program_env | dict(env or {})
        return start(arguments, cwd=cwd or self.repo.root, env=whole)

    def python(
        self, *arguments: str, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a Python program in which `import pinata` finds this very checkout."""
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(
                lambda: subprocess.run(
                    [sys.executable, *arguments],
                    cwd=cwd or self.repo.root,
                    env=self.program_env | dict(env or {}),
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    check=False,
                )
            ).result()

    @property
    def program_env(self) -> dict[str, str]:
        """The environment in which `python -m pinata` finds this very checkout."""
        root = Path(__file__).resolve().parents[2]
        names = [name for name in os.environ if name.startswith("COVERAGE_")]
        kept = {name: os.environ[name] for name in names}
        return self.env | kept | {"PYTHONPATH": str(root)}

    def write_job(self, job: Mapping[str, Any]) -> Path:
        """Write a job file beside the repository."""
        path = self.folder / "job.json"
        path.write_text(json.dumps(job))
        return path


def read(path: str) -> str:
    """Return the text of a file that an answer names."""
    return Path(path).read_text()


def task_of(answer: Mapping[str, Any], id_: str) -> dict[str, Any]:
    """Return the summary of one task of a run's summary."""
    found: dict[str, Any] = next(task for task in answer["tasks"] if task["id"] == id_)
    return found


def statuses(answer: Mapping[str, Any]) -> dict[str, str]:
    """Return the status of each task of a run's summary."""
    return {task["id"]: task["status"] for task in answer["tasks"]}
