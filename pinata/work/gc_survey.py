"""Puts together what a settled run has on disk and in refs, by its own records; blocks."""

import json
import os
from collections.abc import Iterator, Mapping, Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path

from engine.core.errors import CorruptionError
from engine.core.events import AttemptStarted
from engine.core.ids import AttemptId, TaskId, TreeId
from engine.core.spec import Kind, ReviewOf
from engine.core.subject import Subject
from engine.store import RunFolder
from engine.system import files
from engine.system.sockets import somebody_listens
from pinata.work.gc_plan import RunFacts, Standing, WorktreeFacts
from pinata.work.history import StoredRun
from pinata.work.kept_refs import named_refs
from pinata.work.last_work import work_end_ms
from pinata.work.places import Places, pull_worktree_reason, worktree_reason
from pinata.work.result import Artifact, SavedResult
from worktrees.apply_leftovers import list_leftovers
from worktrees.aside import standing_at
from worktrees.hygiene import Repository
from worktrees.journal import Journal
from worktrees.lease import REASON_PREFIX
from worktrees.refs import evidence_ref, run_prefix
from worktrees.registration import list_registrations, remaining_of
from worktrees.untouched import Left

_RECORD_LIMIT_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Material:
    """What a survey goes by.

    Attributes:
        results: of all attempts that have one.
        refs: all that lie below `refs/pinata/`.
        now_ms: the time, by the clock of the run's log.
    """

    repository: Repository
    places: Places
    stored: StoredRun
    journal: Journal | None
    results: Mapping[AttemptId, SavedResult]
    refs: Mapping[str, str]
    now_ms: int

    @property
    def folder(self) -> RunFolder:
        """The run's."""
        return self.stored.folder

    @property
    def place(self) -> Path:
        """Where the run's worktrees lie."""
        return self.places.worktrees(self.folder.run)

    @property
    def attempts(self) -> list[AttemptId]:
        """All attempts that were started, in order."""
        return [e.attempt for e in self.stored.history if isinstance(e, AttemptStarted)]


@dataclass(frozen=True, slots=True)
class Seen:
    """A run that was looked at.

    Attributes:
        leases: what each of its worktrees held when work in it ended, by the name of its folder.
    """

    facts: RunFacts
    leases: Mapping[str, Left]


def survey(material: Material, facts: RunFacts) -> Seen:
    """Return what a settled run has, `facts` filled in; where its change went is left open.

    Raises:
        OSError: a folder cannot be read.
    """
    leases = dict(_leases(material))
    writers = {task.id for task in material.stored.spec.tasks if task.kind is Kind.WRITER}
    recorded = list_registrations(material.repository)
    known = set(recorded)
    worktrees = []
    for name, left in leases.items():
        writer = TaskId(name) if name in writers else None
        if (standing := _standing(left.path, known)) is not None:
            worktrees.append(WorktreeFacts(name, left.path, writer, standing))
    reasons = {REASON_PREFIX + left.reason: _real(left.path) for left in leases.values()}
    elsewhere = [p for p, r in recorded.items() if r.reason in reasons and p != reasons[r.reason]]
    refs, foreign = _refs(material)
    facts = replace(
        facts,
        at_stake=frozenset(_at_stake(material, writers, worktrees)),
        worktrees=tuple(worktrees),
        elsewhere=tuple(elsewhere),
        strangers=tuple(_strangers(material, leases)),
        refs=refs,
        foreign_refs=foreign,
        indexes=tuple(_present(material.folder.indexes)),
        waste=tuple(_waste(material)),
    )
    return Seen(facts, leases)


def _leases(material: Material) -> Iterator[tuple[str, Left]]:
    stored, places, folder = material.stored, material.places, material.folder
    run = folder.run
    newest = {attempt.task: attempt for attempt in material.attempts}
    for task in stored.spec.tasks:
        if task.kind is Kind.WRITER:
            artifact = _artifact(material, newest.get(task.id))
            tree = None if artifact is None else TreeId(artifact.result_tree)
            path, seed = places.worktree(run, task.id), folder.index_file(task.id)
            since_ns = _since_ns(material, {task.id, *_judges_of(material, task.id)})
            yield task.id, Left(path, seed, worktree_reason(run, task.id), tree, since_ns)
    for number, subject, judges in _pulled(material):
        path, seed = places.pull_worktree(run, number), folder.pull_index_file(number)
        reason, since_ns = pull_worktree_reason(run, number), _since_ns(material, judges)
        yield path.name, Left(path, seed, reason, subject.head_tree, since_ns)


def _judges_of(material: Material, writer: TaskId) -> Iterator[TaskId]:
    """Yield the reviewers of a writer, who work in its worktree."""
    for task in material.stored.spec.tasks:
        if isinstance(task.target, ReviewOf) and task.target.task == writer:
            yield task.id


def _pulled(material: Material) -> Iterator[tuple[int, Subject, set[TaskId]]]:
    """Yield each pull request with what is reviewed of it and who does so, in one worktree."""
    found: dict[int, tuple[Subject, set[TaskId]]] = {}
    for judge, subject in material.stored.record.subjects.items():
        if (pull := subject.pull_request) is not None:
            found.setdefault(pull.number, (subject, set()))[1].add(TaskId(judge))
    for number, (subject, judges) in found.items():
        yield number, subject, judges


def _since_ns(material: Material, tasks: AbstractSet[TaskId]) -> int | None:
    end_ms = work_end_ms(material.stored.timed_history, tasks, material.now_ms)
    # Times of files are finer than those of events.
    return None if end_ms is None else (end_ms + 1) * 1_000_000


def _artifact(material: Material, attempt: AttemptId | None) -> Artifact | None:
    result = None if attempt is None else material.results.get(attempt)
    return None if result is None else result.artifact


def _standing(path: Path, known: set[Path]) -> Standing | None:
    if os.path.lexists(standing_at(path)):
        return Standing.PRESENT
    if os.path.lexists(remaining_of(path)):
        return Standing.ASIDE
    return Standing.MISSING if _real(path) in known else None


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path.parent)) / path.name


def _at_stake(
    material: Material, writers: set[TaskId], worktrees: list[WorktreeFacts]
) -> Iterator[TaskId]:
    """Yield the writers that changed something, or whose worktree was never captured."""
    present = {each.writer for each in worktrees if each.standing is Standing.PRESENT}
    newest = {attempt.task: attempt for attempt in material.attempts}
    for attempt in material.attempts:
        artifact = _artifact(material, attempt)
        if attempt.task in writers and artifact is not None and artifact.changes:
            yield attempt.task
    for task in writers & present:
        if _artifact(material, newest.get(task)) is None:
            yield task


def _strangers(material: Material, leases: Mapping[str, Left]) -> Iterator[Path]:
    paths = [left.path for left in leases.values()]
    own = {path for each in paths for path in (each, remaining_of(each), standing_at(each))}
    yield from sorted(set(list_entries(material.place)) - own)


def list_entries(folder: Path) -> list[Path]:
    """Return what lies in a folder, sorted; nothing of one that is a link, or not there. Blocks."""
    if folder.is_symlink() or not folder.is_dir():
        return []
    return sorted(folder.iterdir())


def _refs(material: Material) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the refs that the run's records name, but for its evidence, and those they do not."""
    run = material.folder.run
    record, spec = material.stored.record, material.stored.spec
    named = named_refs(record, spec, material.attempts, material.results)
    own: dict[str, str] = {}
    foreign: list[str] = []
    for ref, held in material.refs.items():
        if not ref.startswith(run_prefix(run)) or ref == evidence_ref(run):
            continue
        if ref in named and named[ref] in (None, held):
            own[ref] = held
        else:
            foreign.append(ref)
    return own, tuple(foreign)


def _waste(material: Material) -> Iterator[Path]:
    """Yield what is left of calls that are over, whatever becomes of the run."""
    folder, place = material.folder, material.place
    yield from list_entries(folder.scratch)
    if place.is_dir() and not (place.is_symlink() or list_entries(place)):
        yield place
    root = Path(material.stored.record.root)
    yield from list_leftovers(folder.integration, root, material.journal)
    yield from _dead_link(folder)


def _dead_link(folder: RunFolder) -> Iterator[Path]:
    """Yield how a dead owner was reached; a living one may let a settled run be watched still."""
    present = [*_present(folder.link_file), *_present(folder.link_socket)]
    told = read_socket(folder.link_file)
    sockets = [folder.link_socket, *([] if told is None else [told])]
    if present and not any(map(somebody_listens, sockets)):
        yield from present


def read_socket(record: Path) -> Path | None:
    """Return the socket that a record tells of, None where it tells of none."""
    try:
        told = json.loads(files.read_regular(record, _RECORD_LIMIT_BYTES))
    except (FileNotFoundError, CorruptionError, ValueError):
        return None
    socket = told.get("socket") if isinstance(told, dict) else None
    return Path(socket) if isinstance(socket, str) else None


def _present(path: Path) -> Iterator[Path]:
    if os.path.lexists(path):
        yield path
