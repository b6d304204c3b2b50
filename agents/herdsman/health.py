"""When an owner is told that one of its agents needs it, and how often: a ladder of conditions.

The memory is that of one process. Whoever begins anew may say again what still holds.
"""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, assert_never

from agents.herdsman.activity import inactive_ms
from agents.herdsman.identity import GenerationId, RequestId
from agents.herdsman.owed import owed_results
from agents.herdsman.presence import Presence
from agents.herdsman.projection import (
    Evidence,
    is_starting,
    is_terminal,
)
from agents.herdsman.record import OnePending
from agents.herdsman.runtime import Lifecycle
from agents.herdsman.tool_names import INSPECT

PENDING_AFTER_MS: Final = 10 * 60 * 1000
ASK_AFTER_MS: Final = 5 * 60 * 1000
STALE_EVERY_MS: Final = 5 * 60 * 1000
REPEAT_FIRST_MS: Final = 5 * 60 * 1000
REPEAT_LEAST_MS: Final = 60 * 1000


class Reason(enum.Enum):
    """What an owner is told of; the first that applies stands for the agent."""

    RESULT_ERROR = "result_error"
    LOST = "lost"
    UNKNOWN = "unknown"
    ASK = "ask"
    BLOCKED = "blocked"
    PENDING_REQUEST = "handoff"
    STALE = "stale"


@dataclass(frozen=True, slots=True)
class Condition:
    """What is the matter with an agent.

    Two are equal for as long as it is the same trouble.

    Attributes:
        episode: tells it from an earlier one with the same reason.
        request: that it is about; None where there is none.
    """

    reason: Reason
    episode: tuple[str | int, ...] = ()
    request: RequestId | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Facts:
    """One agent of the owner's own, as a look shows it.

    Attributes:
        tools: what the owner could call on it.
        is_ask_delivered: the owner's conversation holds the question that it waits with.
    """

    evidence: Evidence
    tools: tuple[str, ...] = ()
    is_ask_delivered: bool = False

    @property
    def generation(self) -> GenerationId:
        """The name of the agent's generation."""
        return self.evidence.contents.state.of.generation


@dataclass(frozen=True, slots=True)
class Episode:
    """A condition for as long as it lasts.

    Attributes:
        notices: how often the owner was told.
        due_ms: when it is to be told next; None for never.
    """

    condition: Condition
    notices: int
    due_ms: int | None


Memory = Mapping[GenerationId, Episode]


@dataclass(frozen=True, slots=True)
class Notice:
    """What an owner is to be told now.

    Attributes:
        number: counts the notices of the episode from 1.
        now_ms: when it was decided.
        next_ms: when it is repeated, if nothing changes; None for never.
    """

    facts: Facts
    condition: Condition
    number: int
    now_ms: int
    next_ms: int | None

    @property
    def wants_capture(self) -> bool:
        """Whether the agent's terminal is to be read for it: once in an episode, if allowed."""
        return (
            self.condition.reason is Reason.STALE
            and self.number == 1
            and INSPECT in self.facts.tools
        )


def advance(
    memory: Memory, facts: Iterable[Facts], now_ms: int
) -> tuple[dict[GenerationId, Episode], Notice | None]:
    """Return what is remembered after a look, and the one notice that is due, if any is.

    Of several the one that has waited longest is due. What is remembered holds while the notice is
    not sent; `after` says what does once it is.

    Args:
        memory: what was remembered before.
        facts: of all agents of the owner's own; whoever is missing is forgotten.
        now_ms: the time of the look.
    """
    kept: dict[GenerationId, Episode] = {}
    due: list[tuple[int, int, str, Facts, Episode]] = []
    for one in facts:
        condition = condition_of(one, now_ms)
        if condition is None:
            continue
        episode = _episode(memory.get(one.generation), condition, now_ms)
        kept[one.generation] = episode
        if episode.due_ms is not None and episode.due_ms <= now_ms:
            rank = _RANK[condition.reason]
            due.append((episode.due_ms, rank, one.generation, one, episode))
    if not due:
        return kept, None
    *_, chosen, episode = min(due, key=lambda one: one[:3])
    number = episode.notices + 1
    next_ms = _due(episode.condition.reason, number, now_ms)
    return kept, Notice(chosen, episode.condition, number, now_ms, next_ms)


def after(memory: Memory, notice: Notice) -> dict[GenerationId, Episode]:
    """Return what is remembered once a notice was sent."""
    sent = Episode(notice.condition, notice.number, notice.next_ms)
    return {**memory, notice.facts.generation: sent}


def still_holds(notice: Notice, facts: Facts, now_ms: int) -> bool:
    """Return whether a notice says what a fresh look at the same agent shows, in full identity."""
    return (
        facts.evidence.contents.state.identity == notice.facts.evidence.contents.state.identity
        and condition_of(facts, now_ms) == notice.condition
    )


def condition_of(facts: Facts, now_ms: int) -> Condition | None:
    """Return what is the matter with an agent; None when nothing is that its owner can help.

    An agent that starts, or whose result is about to be delivered, needs nobody.
    """
    contents = facts.evidence.contents
    state = contents.state
    if state.result_error is not None:
        error = state.result_error
        return Condition(Reason.RESULT_ERROR, (error.failed_ms, error.request), error.request)
    if is_starting(contents):
        return None
    match facts.evidence.observed.presence:
        case Presence.LOST:
            is_unresolved = state.completed is None and not owed_results(contents)
            return Condition(Reason.LOST, (), state.active) if is_unresolved else None
        case Presence.UNKNOWN:
            # One whose work is done is just being ended, and nobody can do anything about it.
            return None if is_terminal(contents) else Condition(Reason.UNKNOWN, (), state.active)
        case Presence.LIVE:
            return None if is_terminal(contents) else _condition_of_live(facts, now_ms)
        case never:
            assert_never(never)


def _condition_of_live(facts: Facts, now_ms: int) -> Condition | None:
    """Return what is the matter with an agent that is there and whose assignment is not over."""
    contents = facts.evidence.contents
    state = contents.state
    # An owner whose answer is on its way is not to answer again.
    if state.pending_ask is not None and not contents.has_pending_request:
        if not facts.is_ask_delivered:
            return None
        return Condition(Reason.ASK, (state.pending_ask,), state.active)
    if (
        state.active is not None
        and state.pending_ask is None
        and facts.evidence.observed.lifecycle is Lifecycle.BLOCKED
    ):
        return Condition(Reason.BLOCKED, (state.active,), state.active)
    if isinstance(contents.pending, OnePending):
        waiting = contents.pending.request
        if now_ms - waiting.created_ms >= PENDING_AFTER_MS:
            return Condition(Reason.PENDING_REQUEST, (waiting.request,), waiting.request)
    if inactive_ms(facts.evidence, now_ms) is not None:
        assert state.active is not None
        assert state.last_activity_ms is not None
        episode = (state.active, state.last_activity_ms)
        return Condition(Reason.STALE, episode, state.active)
    return None


_RANK: Final = {reason: rank for rank, reason in enumerate(Reason)}


def _episode(known: Episode | None, condition: Condition, now_ms: int) -> Episode:
    """Return the episode that a condition belongs to: the known one, or one that begins now."""
    if known is None or known.condition != condition:
        return Episode(condition, 0, _due(condition.reason, 0, now_ms))
    latest = _due(condition.reason, known.notices, now_ms)
    if known.due_ms is None or latest is None or known.due_ms <= latest:
        return known
    # The clock was set back: nobody waits longer for that.
    return replace(known, due_ms=latest)


def _due(reason: Reason, notices: int, now_ms: int) -> int | None:
    """Return when the next notice is due, if the last of `notices` was sent now."""
    if notices == 0:
        return now_ms + (ASK_AFTER_MS if reason is Reason.ASK else 0)
    if reason is Reason.UNKNOWN:
        return None
    if reason is Reason.STALE:
        return now_ms + STALE_EVERY_MS
    return now_ms + max(REPEAT_FIRST_MS >> (notices - 1), REPEAT_LEAST_MS)
