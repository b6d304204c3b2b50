"""What is known of an attempt while it is carried out, and how that becomes its saved result."""

import json
from dataclasses import dataclass, field
from typing import Any

from agents.budget import Budget
from agents.steering import Steers
from agents.submission import Submission, encode_submission, settle
from checks.proof import CheckProof, ListName
from engine.core.fingerprint import canonical
from engine.core.ids import AttemptId
from engine.core.outcome import FailureStage, Status
from engine.core.quote import quote_value
from engine.core.spec import CheckSpec, TaskSpec
from pinata.work.rechecking import planned_checks
from pinata.work.result import Artifact, Review, SavedResult, SteerRecord, Usage


@dataclass(frozen=True, slots=True)
class Ending:
    """How an attempt ends; `reason` is absent only on success."""

    status: Status
    reason: str | None = None
    stage: FailureStage | None = None

    @classmethod
    def failed(cls, reason: str, stage: FailureStage) -> "Ending":
        """Return a failure at `stage`."""
        return cls(Status.FAILED, reason, stage)

    @classmethod
    def said(cls, submission: Submission) -> "Ending":
        """Return the ending that the agent's own result stands for."""
        status, reason = settle(submission)
        stage = FailureStage.RESULT if status is Status.FAILED else None
        return cls(status, reason, stage)


@dataclass(slots=True)
class Draft:
    """An attempt in progress, owned by the task that carries it out.

    When the attempt is stopped, what stands here is what is saved of it.

    Attributes:
        stage: where a failure would be filed at the moment.
        steers: the messages that wait for the agent.
        delivered: those that reached it; see `SavedResult.steers`.
        proofs: of the checks that ran, also of one that was stopped.
    """

    task: TaskSpec
    attempt: AttemptId
    budget: Budget
    model: str
    started_at_ms: int
    stage: FailureStage = FailureStage.WORKSPACE
    submission: Submission | None = None
    artifact: Artifact | None = None
    review: Review | None = None
    checkout_changed: bool | None = None
    transcript: str | None = None
    steers: Steers = field(default_factory=Steers)
    delivered: list[SteerRecord] = field(default_factory=list)
    proofs: list[CheckProof] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    @property
    def planned(self) -> tuple[tuple[ListName, CheckSpec], ...]:
        """The attempt's checks in the order in which they are run."""
        return planned_checks(self.task)

    def result(self, ending: Ending, ended_at_ms: int) -> SavedResult:
        """Return what is saved when the attempt ends like this."""
        ran = {proof.id for proof in self.proofs}
        return SavedResult(
            task=self.task.id,
            agent=self.task.agent,
            attempt=self.attempt.number,
            status=ending.status,
            reason=ending.reason,
            stage=ending.stage,
            submission=self._submission(),
            checks=tuple(self.proofs),
            not_run=tuple(check.id for _, check in self.planned if check.id not in ran),
            artifact=self.artifact,
            review=self.review,
            checkout_changed=self.checkout_changed,
            steers=tuple(self.delivered),
            usage=self._usage(),
            model=self.model,
            transcript=self.transcript,
            notices=(*self.notices, *self._unread()),
            started_at_ms=self.started_at_ms,
            ended_at_ms=ended_at_ms,
        )

    def _unread(self) -> tuple[str, ...]:
        """Return a notice about each message that came too late for the agent to read it."""
        return tuple(
            f"a message did not reach the agent before it ended: {quote_value(steer.text)}"
            for steer in self.steers.unread
        )

    def _submission(self) -> dict[str, Any] | None:
        if self.submission is None:
            return None
        # As it will be read back: lists where values are tuples.
        said: dict[str, Any] = json.loads(canonical(encode_submission(self.submission)))
        return said

    def _usage(self) -> Usage:
        spent = self.budget.spent
        return Usage(
            turns=spent.turns,
            tool_calls=spent.tool_calls,
            input_tokens=spent.usage.input_tokens,
            output_tokens=spent.usage.output_tokens,
            cost_usd=spent.usage.cost_usd,
            refused_calls=spent.refused_calls,
        )
