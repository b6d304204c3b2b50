"""Carries a run that this process owns to its end, new or taken over from a dead process."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from math import fsum
from pathlib import Path

import trio

from agents.definition import decode_definition
from agents.models.routes import open_routes
from agents.purse import Purse
from engine.core.events import AttemptSettled, AttemptStarted, Decision
from engine.core.graph import TaskGraph
from engine.core.ids import AttemptId, TaskId
from engine.core.outcome import LOST_REASON, AttemptOutcome
from engine.core.recovery import Lost, Recovery, recover, state_after
from engine.core.repair import feedbacks, settled_ms
from engine.core.rerun import fresh_starts
from engine.core.spec import Kind, Mode
from engine.core.state import RunState
from engine.core.view import RunView
from engine.eventlog import open_event_log
from engine.inbox import Inbox
from engine.scheduler import Continuation, Means, Terms, run_graph
from engine.system import strays
from pinata.work.attempts import Attempts
from pinata.work.blocking import in_thread
from pinata.work.context import Context
from pinata.work.credible import is_credible
from pinata.work.history import StoredRun, all_results, newest_results, set_back, unannounced
from pinata.work.keeping import Keeper
from pinata.work.kept_refs import NamedRefs, named_refs
from pinata.work.lent_models import LentModels
from pinata.work.linked_run import LinkedRun
from pinata.work.models import ModelSources, choose_models
from pinata.work.observer import OpenedRun, Silence
from pinata.work.own_records import OwnRecords
from pinata.work.places import Places
from pinata.work.result import SavedResult, Usage, encode_result
from pinata.work.retirement import refuse_retired, where_changes_are
from pinata.work.run import Run
from pinata.work.telemetry import open_telemetry
from pinata.work.user_pi import UserPi
from pinata.work.workshop import Workshop
from worktrees.discovery import discover

Then = Callable[[RunState], Sequence[Decision]]


@dataclass(frozen=True, slots=True)
class Past:
    """What a run that is taken up has behind it.

    Attributes:
        results: the newest of every task that has one.
        feedback: what was asked for in the newest repair of each task that has one.
        fresh: tasks that begin afresh; see `fresh_starts`.
        settled_ms: for how long it was settled; its deadline is so much later.
        go_on: where it stands.
        view: what has been seen of it.
        refs: those that it may have.
    """

    results: dict[TaskId, SavedResult]
    feedback: dict[TaskId, str]
    fresh: Mapping[TaskId, int]
    settled_ms: int
    go_on: Continuation
    view: RunView
    refs: NamedRefs


async def conduct(run: Run, past: Past | None = None) -> None:
    """Run all tasks to their end; when this returns, every result is durable and nothing runs.

    Args:
        run: owned by this process.
        past: of a run that was taken over; None for a new one.

    Raises:
        PinataError: the run cannot go on, for example because its folder cannot be written.
    """
    inbox = Inbox()
    workshop = _new_workshop(run, past, inbox)
    attempts = Attempts(workshop)
    # Nothing is waited for since the record of a new run became durable: from there on, whoever
    # cancels the run has a handle that closes it in order.
    opened = _opened(run, past, inbox, attempts)
    run.context.observer.run_opened(opened)
    try:
        refs = named_refs(run.record, run.spec) if past is None else past.refs
        await workshop.keeper.adopt(refs)
        await workshop.records.adopt()
        await _work(workshop, attempts, inbox, opened, past)
    finally:
        inbox.close()
        with trio.CancelScope(shield=True):
            await _leave_nothing(workshop)


def _new_workshop(run: Run, past: Past | None, inbox: Inbox) -> Workshop:
    """Return what the run's tasks are carried out with, the inbox being where it is given up."""
    spent_usd = _spent_before(None if past is None else past.go_on)
    workshop = Workshop(
        run,
        {},
        Keeper(run.repository, run.id),
        Purse(run.spec.config.limits.cost_usd, spent_usd),
        OwnRecords(run.folder),
        give_up=inbox.request_cancel,
    )
    if past is not None:
        workshop.results |= past.results
        workshop.feedback |= past.feedback
        workshop.fresh = past.fresh
    return workshop


def _opened(run: Run, past: Past | None, inbox: Inbox, attempts: Attempts) -> OpenedRun:
    """Return the run as its observers get it."""
    tasks = run.spec.tasks
    return OpenedRun(
        id=run.id,
        folder=run.folder.path,
        started_at_ms=run.record.started_at_ms,
        agents={task.id: task.agent for task in tasks},
        after={task.id: task.after for task in tasks},
        view=RunView() if past is None else past.view,
        cancel=inbox.request_cancel,
        record_cancel=inbox.record_cancel,
        steer=attempts.steer,
        notices=run.record.notices,
        survives=run.spec.survive,
        backends={task.id: run.backend_of(task.id).value for task in tasks},
    )


async def _work(
    workshop: Workshop, attempts: Attempts, inbox: Inbox, opened: OpenedRun, past: Past | None
) -> None:
    """Bring every task to its end, for all who watch to see."""
    run, config = workshop.run, workshop.run.spec.config
    rested_ms = 0 if past is None else past.settled_ms
    terms = Terms(
        graph=run.graph,
        providers={task: model.choice.provider for task, model in run.models.items()},
        limits=config.limits,
        deadline_at_ms=run.record.deadline_at_ms + rested_ms,
    )
    clock, file = run.context.clock, run.folder.events_file
    async with (
        _reachable(run, opened) as link,
        open_event_log(file, run=run.id, clock=clock, mode=config.mode) as log,
    ):
        for observed in (run.context.observer, link):
            log.subscribe(observed.happened)
            log.watch(observed.noted)
        log.subscribe(workshop.happened)
        workshop.log = log
        async with open_telemetry(
            attempts, mode=config.mode, token=run.record.mark, note=log.note
        ) as executor:
            means = Means(executor, log, run.context.limiter, clock)
            await run_graph(terms, means, inbox, go_on=None if past is None else past.go_on)


async def _leave_nothing(workshop: Workshop) -> None:
    """End what the run's programs left running, then condemn records that they wrote to, if any."""
    try:
        await strays.end_marked(f"{workshop.run.record.mark}/")
        await strays.end_unclaimed()
    finally:
        await workshop.records.condemn(workshop.log)


@asynccontextmanager
async def _reachable(run: Run, opened: OpenedRun) -> AsyncIterator[LinkedRun | Silence]:
    """Let other processes reach the run inside the block, where this one serves any."""
    context = run.context
    if context.links is None:
        yield Silence()
        return
    is_lean = run.spec.config.mode is Mode.LEAN
    async with context.links.reachable(
        opened, context.environment, context.clock, is_lean=is_lean
    ) as link:
        yield link


def _spent_before(go_on: Continuation | None) -> float:
    """Return the dollars of all earlier attempts, those that the opening settles included."""
    if go_on is None:
        return 0.0
    state = go_on.state
    lost = [
        max(event.outcome.cost_usd, state.spending.get(event.attempt.task, 0.0))
        for event in go_on.opening
        if isinstance(event, AttemptSettled) and state.is_running(event.attempt)
    ]
    return fsum([state.settled_usd, *lost])


async def resume(context: Context, stored: StoredRun) -> None:
    """Close what a dead owner left open and carry the rest of the run to its end.

    An attempt that was running is cancelled, unless its result was already saved and holds against
    the request and the repository: then it counts.

    Raises:
        PinataError: the run cannot go on here; nothing was recorded.
    """
    graph = TaskGraph.build(stored.spec.tasks)
    found = recover(graph, stored.history, reason=f"taken over by {context.holder}")
    if found.state.settled is None:
        await take_up(context, stored, graph, found)


async def take_up(
    context: Context,
    stored: StoredRun,
    graph: TaskGraph,
    found: Recovery,
    then: Then | None = None,
) -> None:
    """Carry a run on from where its log ends, which `found` says.

    Args:
        context: the caller's.
        stored: the run, taken over by this process.
        graph: of its tasks.
        found: how it goes on; lost attempts are closed first.
        then: gets where the run stands after that, and returns what is recorded next, before
            anything is started; it may refuse by raising.

    Raises:
        PinataError: the run cannot go on here; nothing was recorded.
    """
    changes = where_changes_are(stored.folder)
    await refuse_retired(stored.folder, f"start a new run ({changes})")
    async with _reopened(context, stored, graph) as run:
        results = await trio.to_thread.run_sync(newest_results, stored)
        kinds = {run.spec.task(each.attempt.task).kind for each in found.lost}
        lost = [
            await _settle_lost(run, results, each, among_writers=Kind.WRITER in kinds)
            for each in found.lost
        ]
        found = replace(found, lost=tuple(lost))
        closing = found.events([each.outcome.result_digest for each in lost])
        opening = closing
        if then is not None:
            opening += tuple(then(state_after(graph, (*stored.history, *closing))))
        refs = await trio.to_thread.run_sync(_refs, run, stored, results)
        fresh = fresh_starts((*stored.history, *opening))
        await trio.to_thread.run_sync(set_back, stored.folder, results, fresh)
        past = Past(
            results=results,
            feedback=feedbacks(stored.history),
            fresh=fresh,
            settled_ms=settled_ms(stored.timed_history, context.clock.now_ms()),
            go_on=Continuation(found.state, opening),
            view=stored.view,
            refs=refs,
        )
        await conduct(run, past)


def _refs(run: Run, stored: StoredRun, newest: Mapping[TaskId, SavedResult]) -> NamedRefs:
    """Return the refs that a run may have by its records; blocks.

    Args:
        run: taken over by this process.
        stored: as it was found.
        newest: result of every task that has one; only it knows those of lost attempts.
    """
    started = [e.attempt for e in stored.history if isinstance(e, AttemptStarted)]
    lost = {AttemptId(each.id, each.attempt): each for each in newest.values()}
    return named_refs(run.record, run.spec, started, lost | all_results(stored))


async def _settle_lost(
    run: Run, results: dict[TaskId, SavedResult], lost: Lost, *, among_writers: bool
) -> Lost:
    """Return the outcome of an attempt whose process died, its result being durable.

    Args:
        run: taken over by this process.
        results: gets the attempt's result.
        lost: what the log says about it.
        among_writers: one of those that were lost with it is a writer.

    Raises:
        ExternalError: the result cannot be saved.
    """
    saved = await trio.to_thread.run_sync(unannounced, run.folder, lost.attempt)
    if (
        saved is None
        or lost.outcome.reason != LOST_REASON
        or not await is_credible(run, lost.attempt, saved, among_writers=among_writers)
    ):
        saved = SavedResult(
            task=lost.attempt.task,
            agent=run.spec.task(lost.attempt.task).agent,
            attempt=lost.attempt.number,
            status=lost.outcome.status,
            reason=lost.outcome.reason,
            usage=Usage(cost_usd=lost.outcome.cost_usd),
        )
    data = encode_result(saved)
    digest = await in_thread(
        lambda: run.folder.save_result(lost.attempt, data), "cannot save results"
    )
    results[lost.attempt.task] = saved
    outcome = AttemptOutcome(
        status=saved.status,
        reason=saved.reason,
        stage=saved.stage,
        result_digest=digest,
        cost_usd=saved.usage.cost_usd or 0.0,
    )
    return replace(lost, outcome=outcome)


@asynccontextmanager
async def _reopened(context: Context, stored: StoredRun, graph: TaskGraph) -> AsyncIterator[Run]:
    """Have a stored run ready to go on inside the block, its models reached anew."""
    record = stored.record
    found = await discover(Path(record.root), context.environment)
    definitions = {name: decode_definition(one) for name, one in record.definitions.items()}
    async with open_routes(context.environment, context.clock) as routes:
        pi = UserPi.of(context, stored.spec.config.pass_env)
        lent = LentModels.of(context, survives=stored.spec.survive)
        sources = ModelSources(routes, Path(record.started_in), pi, lent)
        yield Run(
            context=context,
            record=record,
            spec=stored.spec,
            graph=graph,
            places=Places.of(found, context.environment),
            folder=stored.folder,
            repository=replace(found, mark=f"{record.mark}/git"),
            definitions=definitions,
            models=await choose_models(stored.spec, definitions, sources),
        )
