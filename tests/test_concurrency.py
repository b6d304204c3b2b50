"""Nobody holds still: a person works in the checkout while runs come, go in and are taken back."""

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import settings

from engine.core.errors import ExternalError, PinataError
from tests.support.projects import PASS, Project, approves, builder, reviewer, shell, submits
from tests.test_kills import checkout

pytestmark = [pytest.mark.slow, pytest.mark.unmeasured]

Answer = dict[str, Any]
Done = subprocess.CompletedProcess[str]
# A builder's name, its command, and what that changes.
Change = tuple[str, str, list[str]]
CHECK = {"id": "seen", "argv": PASS}

# One schedule by default, a hundred with the profile for long runs.
_SEEDS = range(settings().max_examples // 50)
_ROUNDS = 4
_SAVES = 30
_COMMANDS = 20
# Between two saves: longer than a snapshot takes, shorter than a run.
_PAUSE_S = (0.05, 0.4)


def job(project: Project, *changes: Change, **fields: object) -> Answer:
    """Return a job with a reviewed builder for each change."""
    tasks = []
    script = {}
    for name, command, files in changes:
        tasks += [builder(name, *files), reviewer(f"check-{name}", name)]
        script[name] = [shell(command), submits(changedFiles=files)]
        script[f"check-{name}"] = [approves()]
    return project.job(tasks, script, **({"integratedChecks": [CHECK]} | fields))


@contextmanager
def started(
    project: Project, *commands: tuple[str, ...]
) -> Iterator[list["subprocess.Popen[str]"]]:
    """Start several `pinata` commands at the same moment."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "pinata", *arguments],
            cwd=project.repo.root,
            env=project.program_env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for arguments in commands
    ]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def at_once(project: Project, *commands: tuple[str, ...]) -> list[Done]:
    """Carry out several `pinata` commands, started at the same moment, to their ends."""
    with started(project, *commands) as processes, ThreadPoolExecutor(len(processes)) as threads:
        ends = list(threads.map(lambda process: process.communicate(), processes))
        return [
            subprocess.CompletedProcess(process.args, process.returncode, *end)
            for process, end in zip(processes, ends, strict=True)
        ]


def assert_refused(done: Done, *words: str) -> None:
    """Fail unless a command was refused in one sentence that holds one of `words`."""
    assert done.returncode == 4, (done.returncode, done.stderr)
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert any(word in done.stderr for word in words), done.stderr


def proceeded(ends: list[Done], *words: str) -> list[Done]:
    """Return the commands that went through: at least one; the others were refused."""
    for done in ends:
        if done.returncode != 0:
            assert_refused(done, *words)
    through = [done for done in ends if done.returncode == 0]
    assert through, [done.stderr for done in ends]
    return through


def reviewed_run(project: Project, *changes: Change, **fields: object) -> str:
    answer = trio.run(project.call, "pinata_run", job(project, *changes, **fields))
    assert answer["status"] == "succeeded", answer
    run: str = answer["run"]
    return run


def roll_back(project: Project, run: str) -> None:
    trio.run(project.call, "pinata_rollback", {"run": run, "confirm": True})


SHARED = "shared.txt"
# The number of the round that comes when all others hold still; it changes the shared file too.
LAST = 3 * 2 * _ROUNDS
WIDE = [f"wide/{number}.txt" for number in range(40)]
# How often a race is run; it is the outcome of each that counts.
_RACES = 2
WIDELY = "for f in wide/*; do echo {} > $f; done"


def wide_project(folder: Path) -> Project:
    return Project.create(folder, dict.fromkeys(WIDE, "as it was\n"))


def test_integrations_of_one_run_at_once_never_mix(tmp_path: Path) -> None:
    project = wide_project(tmp_path)
    run = reviewed_run(project, ("fix", WIDELY.format("fixed"), WIDE))
    old = checkout(project)
    for _ in range(_RACES):
        proceeded(at_once(project, ("integrate", run), ("integrate", run)), "is held by")
        assert {(project.repo.root / path).read_text() for path in WIDE} == {"fixed\n"}
        roll_back(project, run)
        assert checkout(project) == old


def test_integrations_of_two_runs_with_the_same_files_never_mix(tmp_path: Path) -> None:
    project = wide_project(tmp_path)
    runs = {word: reviewed_run(project, (word, WIDELY.format(word), WIDE)) for word in ("a", "b")}
    for _ in range(_RACES):
        ends = at_once(project, *(("integrate", run) for run in runs.values()))
        (through,) = proceeded(ends, "is held by", "wide/0.txt")
        word = list(runs)[ends.index(through)]
        assert {(project.repo.root / path).read_text() for path in WIDE} == {f"{word}\n"}
        roll_back(project, runs[word])


def test_integration_and_rollback_at_once_never_mix(tmp_path: Path) -> None:
    project = wide_project(tmp_path)
    run = reviewed_run(project, ("fix", WIDELY.format("fixed"), WIDE))
    for _ in range(_RACES):
        trio.run(project.call, "pinata_integrate", {"run": run})
        ends = at_once(project, ("integrate", run), ("rollback", run, "--confirm"))
        proceeded(ends, "is held by")
        assert len({(project.repo.root / path).read_text() for path in WIDE}) == 1


def test_nothing_else_touches_the_checkout_while_an_integration_is_verified(tmp_path: Path) -> None:
    project = wide_project(tmp_path)
    beacon, gate = tmp_path / "beacon", tmp_path / "gate"
    for fifo in (beacon, gate):
        subprocess.run(["mkfifo", str(fifo)], check=True)
    waits = ["sh", "-c", f"echo here > {beacon}; read go < {gate}"]
    first = reviewed_run(
        project,
        ("a", WIDELY.format("a"), WIDE),
        integratedChecks=[{"id": "waits", "argv": waits}],
    )
    second = reviewed_run(project, ("b", "echo b > other.txt", ["other.txt"]))
    with started(project, ("integrate", first)) as (owner,):
        assert beacon.read_text() == "here\n"
        for arguments in (
            ("integrate", first),
            ("rollback", first, "--confirm"),
            ("resume", first),
            ("integrate", second),
        ):
            assert_refused(project.pinata(*arguments), "is held by")
        assert project.pinata("status", first).returncode == 0
        gate.write_text("go\n")
        assert owner.wait() == 0
    assert project.pinata("integrate", second).returncode == 0


def test_one_of_two_commands_takes_a_dead_run_over(tmp_path: Path) -> None:
    project = wide_project(tmp_path)
    path = project.write_job(job(project, ("fix", WIDELY.format("fixed"), WIDE)))
    for kill in ("eventlog.append.durable:1", "store.result.durable:1"):
        known = set(project.runs)
        died = project.pinata("run", str(path), env={"PINATA_FAULTS": f"kill:{kill}"})
        assert died.returncode == -9
        (run,) = set(project.runs) - known
        ends = at_once(project, ("resume", run), ("resume", run))
        for done in ends:
            if done.returncode not in (0, 1):
                assert_refused(done, "is held by")
        assert any(done.returncode in (0, 1) for done in ends)
        log = (project.repo.root / ".git/pinata" / run / "events.jsonl").read_text()
        types = [json.loads(line)["type"] for line in log.splitlines()]
        assert types.count("run_resumed") == types.count("run_settled") == 1


class Person:
    """Somebody who saves files and runs Git in a checkout, and knows what must be there then."""

    def __init__(self, project: Project, seed: int) -> None:
        """Begin with what the checkout holds."""
        self.repo = project.repo
        self.chance = random.Random(seed)  # noqa: S311 - a schedule, no secret
        self.saved: dict[str, str] = {}
        self.refs = self.own_refs()
        self.index = self.index_bytes()

    def own_refs(self) -> set[str]:
        """Return every ref with what it names, but for the engine's."""
        listed = self.repo.ask("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
        return {line for line in listed if not line.startswith("refs/pinata/")}

    def index_bytes(self) -> bytes:
        return (self.repo.root / ".git" / "index").read_bytes()

    def save(self, number: int) -> None:
        """Save a file as editors do: in place, or by moving a new one over the old one."""
        name = self.chance.choice([*2 * ("note.txt", "draft.txt", "deep/er/page.txt"), SHARED])
        content = f"save {number} of {name}\n"
        place = self.repo.place(name)
        if name == SHARED or self.chance.random() < 0.5:
            beside = place.with_name(f"{place.name}~")
            beside.write_text(content)
            beside.replace(place)
        else:
            place.write_text(content)
        self.saved[name] = content

    def command(self, number: int) -> None:
        """Run a Git command; nobody but the person changes the index or a ref of theirs."""
        assert self.index_bytes() == self.index
        assert self.own_refs() == self.refs
        match self.chance.choice(["status", "add", "commit", "gc", "prune", "worktree", "tag"]):
            case "status":
                self.repo.git("status", "--short")
            case "add":
                self.repo.git("add", "--", "note.txt")
            case "commit":
                self.repo.git("commit", "--quiet", "--allow-empty", "--message", f"{number}")
            case "gc":
                self.collect()
            case "prune":
                self.repo.git("worktree", "prune", "--expire=now")
            case "worktree":
                place = str(self.repo.root.with_name(f"mine-{number}"))
                self.repo.git("worktree", "add", "--quiet", "--detach", place)
                self.repo.git("worktree", "remove", place)
            case _:
                self.repo.git("tag", f"t{number}")
        self.index = self.index_bytes()
        self.refs = self.own_refs()

    def collect(self) -> None:
        """Collect garbage, which Git gives up when it meets a worktree that is being made."""
        with suppress(AssertionError):
            self.repo.git("gc", "--quiet", "--prune=now")


@dataclass(slots=True)
class Coordinator:
    """Somebody who has runs carried out and integrates them.

    Attributes:
        applied: the runs whose change is in the checkout, by the file that is theirs alone.
        refusals: what was said instead of an answer.
    """

    project: Project
    name: str
    applied: dict[str, str] = field(default_factory=dict)
    refusals: list[PinataError] = field(default_factory=list)

    async def ask(self, tool: str, arguments: object) -> Answer | None:
        """Call a tool; None when it refused, or failed as the machine may."""
        try:
            return await self.project.call(tool, arguments)
        except PinataError as error:
            self.refusals.append(error)
            return None

    async def round(self, number: int) -> None:
        """Have a run work, integrate it, and take every other one back."""
        own = f"{self.name}-{number}.txt"
        line = f"{self.name} {number}"
        command, files = f"echo {line} > {own}", [own]
        if number % 3 == 0:
            command, files = f"{command}; echo {line} >> {SHARED}", [own, SHARED]
        change = (f"{self.name}{number}", command, files)
        folder = self.project.folder / f"{self.name}-{number}"
        await trio.to_thread.run_sync(folder.mkdir)
        asked = job(replace(self.project, folder=folder), change)
        made = await self.ask("pinata_run", asked)
        if made is None:
            return
        assert all(t["status"] == "succeeded" or t["reason"] for t in made["tasks"]), made
        await self.integrate(made["run"], own, line)
        if number % 2 and own in self.applied:
            asked = {"run": made["run"], "confirm": True}
            if await self.ask("pinata_rollback", asked) is not None:
                assert not await trio.to_thread.run_sync((self.project.repo.root / own).exists)
                del self.applied[own]

    async def integrate(self, run: str, own: str, line: str) -> None:
        """Integrate a run, and see that its own file is there exactly if it went in."""
        begun = False
        done = await self.ask("pinata_integrate", {"run": run})
        if done is None and isinstance(self.refusals[-1], ExternalError):
            # Git lost objects to the collection after the files were moved in, perhaps.
            begun = True
            done = await self.ask("pinata_integrate", {"run": run})
        place = self.project.repo.root / own
        exists = await trio.to_thread.run_sync(place.exists)
        assert exists or done is None
        assert not exists or begun or done is not None
        if exists:
            assert await trio.to_thread.run_sync(place.read_text) == f"{line}\n"
            self.applied[own] = line


@pytest.mark.hypothesis
@pytest.mark.parametrize("seed", _SEEDS)
async def test_nothing_of_a_person_is_lost_while_runs_come_and_go(
    seed: int, tmp_path: Path
) -> None:
    project = Project.create(tmp_path, {"note.txt": "note\n", SHARED: "as it was\n"})
    person = Person(project, seed)
    coordinators = [Coordinator(project, name) for name in ("left", "right")]

    async def save() -> None:
        for number in range(_SAVES):
            await trio.to_thread.run_sync(person.save, number)
            await trio.sleep(person.chance.uniform(*_PAUSE_S))

    async def command() -> None:
        for number in range(_COMMANDS):
            await trio.to_thread.run_sync(person.command, number)
            await trio.sleep(person.chance.uniform(*_PAUSE_S))

    async def coordinate(coordinator: Coordinator) -> None:
        for number in range(_ROUNDS):
            await coordinator.round(number)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(save)
        nursery.start_soon(command)
        for coordinator in coordinators:
            nursery.start_soon(coordinate, coordinator)
    for coordinator in coordinators:
        await coordinator.round(LAST)
        assert f"{coordinator.name}-{LAST}.txt" in coordinator.applied, coordinator.refusals
    assert_theirs(person, coordinators)
    assert_ours(project)


def assert_theirs(person: Person, coordinators: list[Coordinator]) -> None:
    """Fail if something that was saved is not there, or something is that nobody put there."""
    root = person.repo.root
    shared = (root / SHARED).read_text()
    assert shared.startswith(person.saved.pop(SHARED, "as it was\n"))
    lines = {line for each in coordinators for line in each.applied.values()}
    assert set(shared.splitlines()[1:]) <= lines
    for name, content in person.saved.items():
        assert (root / name).read_text() == content
    own = {name: f"{line}\n" for each in coordinators for name, line in each.applied.items()}
    for name, content in own.items():
        assert (root / name).read_text() == content
    known = {"note.txt", "draft.txt", "page.txt", SHARED, *own}
    assert {path.name for path in root.rglob("*.txt") if ".git" not in path.parts} <= known
    assert person.index_bytes() == person.index
    assert person.own_refs() == person.refs


def assert_ours(project: Project) -> None:
    """Fail if the runs left anything half made, or lost an object that a ref of theirs names."""
    project.repo.git("gc", "--quiet", "--prune=now")
    project.repo.git("fsck", "--connectivity-only", "--no-dangling")
    listed = project.repo.ask("worktree", "list", "--porcelain")
    assert "initializing" not in listed
    assert "prunable" not in listed
    made = project.repo.root / ".git" / "pinata"
    left = [p for p in made.rglob("*") if p.suffix == ".intent" or p.parent.name == "scratch"]
    assert left == []
    assert "pinata" not in project.repo.ask("status", "--porcelain", "--ignored")
