"""Carries a run that this process owns to its end, new or taken over from a dead process."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from math import fsum

import trio

from agents.purse import Purse
from engine.core.events import AttemptSettled
from engine.core.ids import TaskId
from engine.core.spec import Mode
from engine.core.view import RunView
from engine.eventlog import open_event_log
from engine.inbox import Inbox
from engine.scheduler import Continuation, Means, Terms, run_graph
from engine.system import strays
from pinata.work.attempts import Attempts
from pinata.work.keeping import Keeper
from pinata.work.kept_refs import NamedRefs, named_refs
from pinata.work.linked_run import LinkedRun
from pinata.work.observer import OpenedRun, Silence
from pinata.work.own_records import OwnRecords
from pinata.work.result import SavedResult
from pinata.work.run import Run
from pinata.work.telemetry import open_telemetry
from pinata.work.workshop import Workshop


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
