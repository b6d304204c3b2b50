"""Takes up a run whose owner died, or that goes on after its end, and carries it on."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import trio

from agents.definition import decode_definition
from agents.models.routes import open_routes
from engine.core.events import AttemptStarted, Decision
from engine.core.graph import TaskGraph
from engine.core.ids import AttemptId, TaskId
from engine.core.outcome import LOST_REASON, AttemptOutcome
from engine.core.recovery import Lost, Recovery, recover, state_after
from engine.core.repair import feedbacks, settled_ms
from engine.core.rerun import fresh_starts
from engine.core.spec import Kind
from engine.core.state import RunState
from engine.scheduler import Continuation
from pinata.work.blocking import in_thread
from pinata.work.conduct import Past, conduct
from pinata.work.context import Context
from pinata.work.credible import is_credible
from pinata.work.history import StoredRun, all_results, newest_results, set_back, unannounced
from pinata.work.kept_refs import NamedRefs, named_refs
from pinata.work.lent_models import LentModels
from pinata.work.models import ModelSources, choose_models
from pinata.work.places import Places
from pinata.work.result import SavedResult, Usage, encode_result
from pinata.work.retirement import refuse_retired, where_changes_are
from pinata.work.run import Run
from pinata.work.user_pi import UserPi
from worktrees.discovery import discover

Then = Callable[[RunState], Sequence[Decision]]


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
