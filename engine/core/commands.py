"""What the loop decides to do next, and what it announces before it does it."""

from dataclasses import dataclass
from typing import assert_never

from engine.core.events import (
    AttemptSettled,
    AttemptStarted,
    AttemptStopping,
    CostLimitPassed,
    Decision,
    RunSettled,
)
from engine.core.ids import AttemptId
from engine.core.outcome import AttemptOutcome, Status, Stop, Unstarted


@dataclass(frozen=True, slots=True)
class StartAttempt:
    """Begin the attempt."""

    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class StopAttempt:
    """End the running attempt from outside."""

    attempt: AttemptId
    stop: Stop


@dataclass(frozen=True, slots=True)
class SettleUnstarted:
    """Settle tasks that will not be started; never empty."""

    tasks: tuple[Unstarted, ...]


@dataclass(frozen=True, slots=True)
class StopSpending:
    """End the run, which spent more than it may."""

    limit_usd: float
    spent_usd: float


@dataclass(frozen=True, slots=True)
class SettleRun:
    """Close the run; every task is final."""

    status: Status
    reason: str | None


Command = StartAttempt | StopAttempt | SettleUnstarted | StopSpending | SettleRun


def announcement(command: Command) -> tuple[Decision, ...]:
    """Return the events that must be durable before `command` is carried out.

    The outcomes of unstarted tasks carry no digest yet: their results are saved once per turn,
    after everything is decided.
    """
    match command:
        case StartAttempt(attempt=attempt):
            return (AttemptStarted(attempt),)
        case StopAttempt(attempt=attempt, stop=stop):
            return (AttemptStopping(attempt, stop),)
        case SettleUnstarted(tasks=tasks):
            return tuple(
                AttemptSettled(AttemptId(each.task, 0), AttemptOutcome(each.status, each.reason))
                for each in tasks
            )
        case StopSpending(limit_usd=limit_usd, spent_usd=spent_usd):
            return (CostLimitPassed(limit_usd, spent_usd),)
        case SettleRun(status=status, reason=reason):
            return (RunSettled(status, reason),)
        case _:
            assert_never(command)
