"""The executor of a run: carries out attempts and saves what they came to."""

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

import trio

from agents.steering import Steer, Steers
from engine.core.errors import ConflictError, PinataError, UsageError
from engine.core.events import Sender, SteerDelivered
from engine.core.ids import AttemptId, TaskId
from engine.core.outcome import AttemptOutcome, FailureStage, Status, Stop, Unstarted
from engine.core.quote import name_list
from engine.core.spec import Kind, ReviewOf
from engine.ports import Reporter
from engine.store import ResultTooLargeError
from pinata.work.agent import new_budget
from pinata.work.draft import Draft, Ending
from pinata.work.existing import review_existing
from pinata.work.reader import read
from pinata.work.result import SavedResult, SteerRecord, encode_result
from pinata.work.reviewer import review
from pinata.work.unknown_task import UnknownTaskError
from pinata.work.workshop import Workshop
from pinata.work.writer import write
from worktrees.machine import refusal

MAX_STEER_BYTES = 64 << 10


class Attempts:
    """Does the work of a run's attempts; see `engine.ports.Executor`."""

    def __init__(self, workshop: Workshop) -> None:
        """Start with what `workshop` holds, such as the results of an earlier process."""
        self._workshop = workshop
        self._drafts: dict[AttemptId, Draft] = {}

    async def run(self, attempt: AttemptId, reporter: Reporter) -> AttemptOutcome:
        """Carry the attempt out and save its result."""
        draft = self._begin(attempt, reporter)
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

    def steer(
        self, task: TaskId, text: str, *, follow_up: bool = False, sender: Sender = Sender.PARENT
    ) -> None:
        """Leave a message for the agent that works on `task`; returns at once.

        The agent reads it after its current turn, or right after its brief if it is still being
        prepared; a result that it hands in meanwhile waits for that.

        Args:
            task: a running one.
            text: the message.
            follow_up: it waits until the agent would otherwise stop.
            sender: on whose behalf.

        Raises:
            UsageError: there is no such task, or the text is blank or too long.
            ConflictError: the task is not running, or its agent has already ended, or has not read
                too much yet.
        """
        if not text.strip():
            raise UsageError("the message is blank: say what the agent should do")
        if len(text.encode("utf-8", "replace")) > MAX_STEER_BYTES:
            limit = f"{MAX_STEER_BYTES >> 10} KiB"
            raise UsageError(f"the message is longer than {limit}: put the rest into a file")
        if task not in self._workshop.run.graph.predecessors:
            raise UnknownTaskError(task, [each.id for each in self._workshop.run.spec.tasks])
        draft = next((each for each in self._drafts.values() if each.task.id == task), None)
        if draft is None:
            saved = self._workshop.results.get(task)
            status = Status.QUEUED if saved is None else saved.status
            raise ConflictError(
                f"task '{task}' is {status.value}: only the agent of a running task can be steered"
            )
        if not draft.steers.is_open:
            raise ConflictError(
                f"task '{task}' is running, but its agent has ended and reads no more messages"
            )
        if not draft.steers.has_room_for(text):
            raise ConflictError(
                f"the agent of task '{task}' has not read the {len(draft.steers.unread)} messages "
                "before this one: wait until it has read some of them"
            )
        draft.steers.post(text, follow_up=follow_up, sender=sender)

    def _begin(self, attempt: AttemptId, reporter: Reporter) -> Draft:
        workshop = self._workshop
        before = workshop.results.get(attempt.task)

        async def record(steer: Steer) -> None:
            await reporter.record(
                SteerDelivered(attempt, steer.text, steer.follow_up, steer.sender)
            )
            draft.delivered.append(SteerRecord(steer.text, steer.sender, steer.follow_up))

        draft = Draft(
            task=workshop.run.spec.task(attempt.task),
            attempt=attempt,
            budget=new_budget(workshop),
            model=workshop.run.models[attempt.task].name,
            started_at_ms=workshop.run.context.clock.now_ms(),
            steers=Steers(record),
            delivered=[] if before is None else list(before.steers),
        )
        self._drafts[attempt] = draft
        return draft

    async def _work(self, draft: Draft, reporter: Reporter) -> Ending:
        match draft.task.kind:
            case Kind.READER:
                return await read(self._workshop, draft, reporter)
            case Kind.WRITER:
                return await write(self._workshop, draft, reporter)
            case Kind.REVIEWER if isinstance(draft.task.target, ReviewOf):
                return await review(self._workshop, draft, reporter)
            case Kind.REVIEWER:
                return await review_existing(self._workshop, draft, reporter)
            case _:
                assert_never(draft.task.kind)

    async def _save(self, draft: Draft, ending: Ending) -> AttemptOutcome:
        now_ms = self._workshop.run.context.clock.now_ms()
        ending = await self._distrusted(draft) or ending
        with trio.CancelScope(shield=True):
            try:
                outcome = await self._keep(draft.result(ending, now_ms))
            except ResultTooLargeError as error:
                draft.submission = None
                ending = Ending.failed(str(error), draft.stage)
                outcome = await self._keep(draft.result(ending, now_ms))
        del self._drafts[draft.attempt]
        return outcome

    async def _distrusted(self, draft: Draft) -> Ending | None:
        """Return how an attempt ends whose agent may have written the run's records, if it did.

        Nothing that is read from them later could be trusted, so the whole run ends.
        """
        if draft.task.kind is not Kind.WRITER:
            return None
        altered = await self._workshop.records.altered(self._workshop.log)
        if not altered:
            return None
        reason = f"while {draft.task.id} worked, somebody wrote to {name_list(altered)} of the run"
        self._workshop.give_up(reason)
        return Ending.failed(reason, FailureStage.VERIFICATION)

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
        folder = self._workshop.run.folder
        paths = [
            path
            for attempt, _ in named
            for path in (folder.attempt_result_file(attempt), folder.result_file(attempt.task))
        ]
        digests = await self._workshop.records.write(
            lambda: folder.save_results(named), paths, "cannot save results"
        )
        self._workshop.results |= {each.id: each for each in results}
        return digests
