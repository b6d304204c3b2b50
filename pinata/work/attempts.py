"""The executor of a run: carries out attempts and saves what they came to."""

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

import trio

from engine.core.errors import ExternalError, PinataError
from engine.core.ids import AttemptId
from engine.core.outcome import AttemptOutcome, Stop, Unstarted
from engine.core.spec import Kind
from engine.ports import Reporter
from engine.store import ResultTooLargeError
from pinata.work.agent import new_budget
from pinata.work.draft import Draft, Ending
from pinata.work.reader import read
from pinata.work.result import SavedResult, encode_result
from pinata.work.reviewer import review
from pinata.work.workshop import Workshop
from pinata.work.writer import write
from worktrees.machine import refusal


class Attempts:
    """Does the work of a run's attempts; see `engine.ports.Executor`."""

    def __init__(self, workshop: Workshop) -> None:
        """Start with what `workshop` holds, such as the results of an earlier process."""
        self._workshop = workshop
        self._drafts: dict[AttemptId, Draft] = {}

    async def run(self, attempt: AttemptId, reporter: Reporter) -> AttemptOutcome:
        """Carry the attempt out and save its result."""
        draft = self._begin(attempt)
        try:
            ending = await self._work(draft, reporter)
        except PinataError as error:
            ending = Ending.failed(str(error), draft.stage)
        except OSError as error:
            ending = Ending.failed(str(refusal(error)), draft.stage)
        return await self._save(draft, ending)

    async def close(
        self,
        attempt: AttemptId,
        stop: Stop,
        reporter: Reporter,
    ) -> AttemptOutcome:
        """Save what a stopped attempt left behind; a result that it brought after all is in it."""
        draft = self._drafts.get(attempt)
        if draft is not None:
            return await self._save(draft, Ending(stop.status, stop.reason))
        # The stop was recorded while the attempt's own result was being saved: all of that stays.
        saved = self._workshop.results[attempt.task]
        assert saved.attempt == attempt.number
        return await self._keep(replace(saved, status=stop.status, reason=stop.reason, stage=None))

    async def settle_unstarted(self, tasks: Sequence[Unstarted]) -> Sequence[str | None]:
        """Save the results of tasks that never started."""
        results = [
            SavedResult(
                task=each.task,
                agent=self._workshop.run.spec.task(each.task).agent,
                attempt=0,
                status=each.status,
                reason=each.reason,
            )
            for each in tasks
        ]
        return await self._store(results)

    def _begin(self, attempt: AttemptId) -> Draft:
        workshop = self._workshop
        draft = Draft(
            task=workshop.run.spec.task(attempt.task),
            attempt=attempt,
            budget=new_budget(workshop),
            model=workshop.run.models[attempt.task].name,
            started_at_ms=workshop.run.context.clock.now_ms(),
        )
        self._drafts[attempt] = draft
        return draft

    async def _work(self, draft: Draft, reporter: Reporter) -> Ending:
        match draft.task.kind:
            case Kind.READER:
                return await read(self._workshop, draft, reporter)
            case Kind.WRITER:
                return await write(self._workshop, draft, reporter)
            case Kind.REVIEWER:
                return await review(self._workshop, draft, reporter)
            case _:
                assert_never(draft.task.kind)

    async def _save(self, draft: Draft, ending: Ending) -> AttemptOutcome:
        now_ms = self._workshop.run.context.clock.now_ms()
        saved = draft.result(ending, now_ms)
        with trio.CancelScope(shield=True):
            try:
                outcome = await self._keep(saved)
            except ResultTooLargeError as error:
                draft.submission = None
                ending = Ending.failed(str(error), draft.stage)
                outcome = await self._keep(draft.result(ending, now_ms))
        del self._drafts[draft.attempt]
        return outcome

    async def _keep(self, saved: SavedResult) -> AttemptOutcome:
        (digest,) = await self._store([saved])
        return AttemptOutcome(
            status=saved.status,
            reason=saved.reason,
            stage=saved.stage,
            result_digest=digest,
            cost_usd=saved.usage.cost_usd or 0.0,
        )

    async def _store(self, results: Sequence[SavedResult]) -> list[str]:
        """Make results durable, then let the run's other tasks see them."""
        named = [(AttemptId(each.id, each.attempt), encode_result(each)) for each in results]
        try:
            digests = await trio.to_thread.run_sync(self._workshop.run.folder.save_results, named)
        except OSError as error:
            raise ExternalError(f"cannot save results: {error.strerror or error}") from error
        self._workshop.results |= {each.id: each for each in results}
        return digests
