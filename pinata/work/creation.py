"""Makes a run out of a request: what can be refused is refused before anything exists."""

import secrets
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import trio

from agents.definition import Definition, encode_definition
from agents.models.routes import open_routes
from engine.core.changes import quote_path
from engine.core.errors import UsageError
from engine.core.graph import TaskGraph
from engine.core.ids import CommitId, TaskId, TreeId
from engine.core.spec import Kind, RunSpec
from engine.records.run import RunRecordV1, encode_run
from engine.records.spec import encode_spec
from engine.store import RunFolder
from engine.system import files, locks
from engine.system.case import folds_case
from engine.system.ledger import keep_ledger
from pinata.work.blocking import in_thread
from pinata.work.context import Context
from pinata.work.lent_models import LentModels
from pinata.work.models import (
    ChosenModel,
    ModelSources,
    choose_models,
    script_notices,
    with_session_model,
)
from pinata.work.places import Places
from pinata.work.run import Run
from pinata.work.session import Session, forget_run, remember_run
from pinata.work.setup import resolve_setup, setup_notices
from pinata.work.subjects import Ground, resolve_subjects, reviews_checkout
from pinata.work.user_pi import PiWay, UserPi, lack_notices
from worktrees import refs
from worktrees.entries import check_entries
from worktrees.examination import examine
from worktrees.hygiene import Repository
from worktrees.snapshot import Snapshot, take_snapshot


@dataclass(frozen=True, slots=True)
class _Start:
    """What the record says about the checkout.

    Attributes:
        checkout: as it is with all that is uncommitted, for those who review it.
    """

    head: CommitId | None = None
    base_commit: str | None = None
    base_tree: TreeId | None = None
    uncommitted: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    checkout: Snapshot | None = None


@dataclass(frozen=True, slots=True)
class _Plan:
    """A run that nothing has refused so far, and of which nothing exists yet.

    Attributes:
        found: the repository, as seen from the folder that the request names.
        definitions: those that its tasks name.
        models: of every task.
        notices: about the checkout.
        model_notices: about its models and agents.
    """

    context: Context
    spec: RunSpec
    found: Repository
    definitions: Mapping[str, Definition]
    started_in: Path
    models: Mapping[TaskId, ChosenModel]
    notices: tuple[str, ...]
    model_notices: tuple[str, ...]


@asynccontextmanager
async def new_run(
    context: Context,
    spec: RunSpec,
    definitions: Mapping[str, Definition],
    found: Repository,
) -> AsyncIterator[Run]:
    """Create a run and own it inside the block.

    Its record is durable before the block is entered. A refusal leaves nothing behind.

    Args:
        context: the caller's.
        spec: what is asked for.
        definitions: those that tasks can name.
        found: the repository, as seen from the folder that the request names.

    Raises:
        PinataError: the request cannot be carried out here; says why.
    """
    used = {task.agent: definitions[task.agent] for task in spec.tasks}
    if context.coordinator is not None:
        # In the record too: whoever takes the run up may find another model in its session.
        spec = with_session_model(spec, used, context.coordinator.preferred)
    started_in = context.cwd if spec.cwd is None else context.base / spec.cwd
    places = Places.of(found, context.environment)
    _refuse_unsupported(context, spec)
    notices = await _check_checkout(found, spec)
    async with AsyncExitStack() as held:
        routes = await held.enter_async_context(open_routes(context.environment, context.clock))
        pi = UserPi.of(context, spec.config.pass_env)
        lent = LentModels.of(context, survives=spec.survive)
        sources = ModelSources(routes, started_in, pi, lent)
        models = await choose_models(spec, used, sources)
        plan = _Plan(
            context=context,
            spec=spec,
            found=found,
            definitions=used,
            started_in=started_in,
            models=models,
            notices=notices,
            model_notices=(
                *_passed_over(models),
                *_lacking(spec, used, models),
                *script_notices(spec, sources),
            ),
        )
        await trio.to_thread.run_sync(files.make_private_dir, places.locks)
        folder = await trio.to_thread.run_sync(RunFolder.create, found.common_dir)
        try:
            lock = places.run_lock(folder.run)
            what = f"run {folder.run}"
            await held.enter_async_context(locks.claim(lock, what=what, holder=context.holder))
            record = await _record(plan, folder)
            await _publish(plan, folder, record)
        except BaseException:
            with trio.CancelScope(shield=True):
                await _discard(context.session, found, folder)
            raise
        with keep_ledger(record.mark, folder.processes_file):
            yield Run(
                context=context,
                record=record,
                spec=spec,
                graph=TaskGraph.build(spec.tasks),
                places=places,
                folder=folder,
                repository=replace(found, mark=f"{record.mark}/git"),
                definitions=used,
                models=models,
            )


async def _record(plan: _Plan, folder: RunFolder) -> RunRecordV1:
    """Return the record of a run, the objects and refs that it names being there.

    Raises:
        PinataError: the request cannot be carried out here; says why.
    """
    context, spec, found = plan.context, plan.spec, plan.found
    start = await _start(found, spec, folder)
    mark = secrets.token_hex(16)
    marked = replace(found, mark=f"{mark}/git")
    ground = Ground(marked, context.environment, folder.run, folder.scratch, start.checkout)
    subjects = await resolve_subjects(spec, ground)
    setup = await resolve_setup(spec, found, start.base_tree, context.environment)
    fold = await trio.to_thread.run_sync(folds_case, found.root, ".git")
    now_ms = context.clock.now_ms()
    return RunRecordV1(
        run=folder.run,
        root=str(found.root),
        started_in=str(plan.started_in),
        started_at_ms=now_ms,
        deadline_at_ms=now_ms + spec.config.limits.job_ms,
        head=start.head,
        base_commit=start.base_commit,
        base_tree=start.base_tree,
        uncommitted=list(start.uncommitted),
        fold_case=fold,
        definitions={name: encode_definition(one) for name, one in plan.definitions.items()},
        setup=setup,
        subjects={str(task): subject for task, subject in subjects.items()},
        session=None if context.session is None else context.session.key,
        mark=mark,
        notices=[
            *spec.notices,
            *plan.notices,
            *start.notes,
            *setup_notices(setup),
            *plan.model_notices,
        ],
        spec=encode_spec(spec),
    )


async def _publish(plan: _Plan, folder: RunFolder, record: RunRecordV1) -> None:
    """Make the record durable, after what leads its session to it: from then on there is a run.

    Raises:
        ExternalError: the disk is full or broken.
    """
    session, found = plan.context.session, plan.found
    if session is not None:
        await remember_run(session, folder.run, found.common_dir, found.root)
    await in_thread(
        lambda: files.replace_file(folder.run_file, encode_run(record), fault="run.record"),
        "cannot save the record of the run",
    )
    # Cancelled meanwhile: the last moment at which nothing need be left behind.
    await trio.lowlevel.checkpoint_if_cancelled()


def _refuse_unsupported(context: Context, spec: RunSpec) -> None:
    """Refuse what can be meant, but not where the caller is."""
    if spec.survive and context.session is None:
        raise UsageError(
            "survive: a run outlives its owner only in a Pi session's host; leave it out here"
        )


async def _check_checkout(repository: Repository, spec: RunSpec) -> tuple[str, ...]:
    owned = [(task.id, task.ownership) for task in spec.tasks if task.kind is Kind.WRITER]
    if not owned:
        return ()
    found = await examine(repository)
    return (*found.notices, *await check_entries(repository, found.submodules, owned))


async def _start(repository: Repository, spec: RunSpec, folder: RunFolder) -> _Start:
    base = checkout = None
    has_all = spec.config.include_uncommitted
    if spec.has_writers:
        base = await take_snapshot(
            repository, folder.run, folder.scratch, include_uncommitted=has_all
        )
    if reviews_checkout(spec):
        # What the setting keeps from builders is reviewed all the same.
        checkout = base if base is not None and has_all else await _whole(repository, folder)
    if base is None:
        head = await refs.head(repository) if checkout is None else checkout.head
        return _Start(head, notes=() if checkout is None else checkout.notes, checkout=checkout)
    return _Start(
        head=base.head,
        base_commit=base.commit,
        base_tree=base.tree,
        uncommitted=tuple(quote_path(path) for path in base.uncommitted),
        notes=base.notes,
        checkout=checkout,
    )


async def _whole(repository: Repository, folder: RunFolder) -> Snapshot:
    """Take a snapshot with everything uncommitted, which is nobody's base."""
    return await take_snapshot(
        repository,
        folder.run,
        folder.scratch,
        include_uncommitted=True,
        ref=refs.checkout_ref(folder.run),
    )


def _passed_over(models: Mapping[TaskId, ChosenModel]) -> list[str]:
    return [
        f"task {task}: uses {model.name}, passed over: {'; '.join(model.passed_over)}"
        for task, model in models.items()
        if model.passed_over
    ]


def _lacking(
    spec: RunSpec, used: Mapping[str, Definition], models: Mapping[TaskId, ChosenModel]
) -> list[str]:
    ways = {
        str(task.id): (way, used[task.agent].tools)
        for task in spec.tasks
        if isinstance(way := models[task.id].way, PiWay)
    }
    return lack_notices(ways)


async def _discard(session: Session | None, repository: Repository, folder: RunFolder) -> None:
    """Remove what an unfinished creation made; the session's entry last, which leads to it."""
    try:
        prefix = refs.run_prefix(folder.run)
        await refs.delete_refs(repository, await refs.list_refs(repository, prefix))
    finally:
        await in_thread(lambda: shutil.rmtree(folder.path), "cannot remove an unfinished run")
    if session is not None:
        await forget_run(session, folder.run)
