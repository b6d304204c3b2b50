"""What a generation's records and one look at it come to: its state, and what can be called on it.

Both are worked out on every read and stored nowhere. What can be called follows from the same
evidence as the state, and never from the state's name.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from agents.herdsman.owed import owes_work
from agents.herdsman.presence import Observed, Presence
from agents.herdsman.record import Contents, State
from agents.herdsman.runtime import Lifecycle
from agents.herdsman.tool_names import CLOSE, INSPECT, INTERRUPT, REPLY, STEER, TRANSCRIPT

_AT_REST: Final = frozenset({Lifecycle.IDLE, Lifecycle.DONE})


class AgentState(enum.Enum):
    """How far a generation is, as it is shown."""

    WORKING = "working"
    BLOCKED = "blocked"
    SETTLING = "settling"
    STARTING = "starting"
    UNKNOWN = "unknown"
    LOST = "lost"


# The states in which a question that is there can be answered.
ANSWERABLE: Final = frozenset({AgentState.WORKING, AgentState.BLOCKED})


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known of one generation at one moment.

    Attributes:
        children: its own agents.
    """

    contents: Contents
    observed: Observed
    children: tuple[Contents, ...] = ()

    @property
    def state(self) -> AgentState:
        """How far it is."""
        return project(self.contents, self.observed, self.children)

    @property
    def is_live(self) -> bool:
        """Whether it is proved to be there."""
        return self.observed.presence is Presence.LIVE

    @property
    def is_unknown(self) -> bool:
        """Whether it can be proved neither to be there nor to be gone."""
        return self.observed.presence is Presence.UNKNOWN

    @property
    def waits_for_children(self) -> bool:
        """Whether it has an assignment and rests until its agents are through with theirs."""
        return (
            self.state is AgentState.BLOCKED
            and self.contents.state.pending_ask is None
            and self.observed.lifecycle in _AT_REST
        )

    @property
    def can_inspect(self) -> bool:
        """Whether its terminal can be read."""
        return self.is_live

    @property
    def can_read_transcript(self) -> bool:
        """Whether its saved conversation may be read, should there be one."""
        return not self.is_unknown

    @property
    def can_steer(self) -> bool:
        """Whether it would take a correction."""
        return self._takes_words and (self.state is AgentState.WORKING or self.waits_for_children)

    @property
    def can_interrupt(self) -> bool:
        """Whether there is something to interrupt."""
        return self._takes_words and self.state is AgentState.WORKING

    @property
    def can_reply(self) -> bool:
        """Whether it waits for an answer to a question that can be told for certain."""
        return self.is_live and self.state in ANSWERABLE and self.contents.open_ask is not None

    @property
    def _takes_words(self) -> bool:
        return self.is_live and self.contents.state.pending_ask is None


def project(
    contents: Contents, observed: Observed, children: Sequence[Contents] = ()
) -> AgentState:
    """Return how far a generation is.

    What it has finished counts before whether it is there, and a request that it has not answered
    before what it does.

    Args:
        contents: its mailbox.
        observed: what an inventory shows of it.
        children: its own agents.
    """
    if is_terminal(contents):
        return AgentState.SETTLING
    if is_starting(contents):
        return AgentState.STARTING
    if observed.presence is Presence.LOST:
        return AgentState.LOST
    if observed.presence is Presence.UNKNOWN:
        return AgentState.UNKNOWN
    if contents.has_pending_request:
        return AgentState.SETTLING
    if contents.state.active is not None:
        return _with_an_assignment(contents, observed, children)
    return AgentState.SETTLING if observed.lifecycle in _AT_REST else AgentState.UNKNOWN


def _with_an_assignment(
    contents: Contents, observed: Observed, children: Sequence[Contents]
) -> AgentState:
    """Return the state of one that is there, has an assignment and has answered everything."""
    lifecycle = observed.lifecycle
    if lifecycle is Lifecycle.WORKING:
        # The turn of an ask may still be ending.
        return AgentState.WORKING
    if lifecycle is Lifecycle.UNKNOWN:
        return AgentState.UNKNOWN
    if (
        contents.state.pending_ask is not None
        or lifecycle is Lifecycle.BLOCKED
        or any(owes_work(child) for child in children)
    ):
        return AgentState.BLOCKED
    return AgentState.SETTLING


def is_terminal(contents: Contents) -> bool:
    """Return whether the assignment is over, as durable evidence has it.

    A completed assignment whose result is gone counts too: only cleaning up is left of it.
    """
    state = contents.state
    return (
        state.result_error is not None
        or state.completed is not None
        or state.active in contents.results
    )


def is_done(state: State) -> bool:
    """Return whether the agent has noted that its assignment is over, so that nothing needs it.

    It may still be at work on that note when the result is there already; see `is_terminal`.
    """
    return state.active is None and (state.completed or state.result_error) is not None


def is_starting(contents: Contents) -> bool:
    """Return whether an owner still starts it, and no assignment has been accepted."""
    state = contents.state
    return (
        contents.is_starting
        and state.active is None
        and state.completed is None
        and state.result_error is None
    )


def available_tools(
    evidence: Evidence, *, is_direct: bool, transcript_ready: bool, closable: bool
) -> tuple[str, ...]:
    """Return what can be called on a generation now, by name, reads first and close last.

    This is a hint: each call looks afresh.

    Args:
        evidence: all that is known of it.
        is_direct: it works for the caller itself.
        transcript_ready: its session file is there and not empty.
        closable: closing it would be allowed; see `agents.herdsman.preflight.plan_close`.
    """
    state = evidence.state
    if not is_direct or evidence.is_unknown or state is AgentState.UNKNOWN:
        return ()
    offers = (
        (INSPECT, evidence.can_inspect),
        (TRANSCRIPT, evidence.can_read_transcript and transcript_ready),
        (STEER, evidence.can_steer),
        (INTERRUPT, evidence.can_interrupt),
        (REPLY, evidence.can_reply),
        (CLOSE, closable and state is not AgentState.STARTING),
    )
    return tuple(name for name, holds in offers if holds)
