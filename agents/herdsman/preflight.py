"""Whether a call on an agent may go ahead, decided from one look and again from each later one.

What is listed as available passes what stands here; a call that is refused says why, and what
helps.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from agents.herdsman.errors import HerdError, ambiguous, broken, busy, not_found
from agents.herdsman.findings import Unreadable
from agents.herdsman.identity import Identity
from agents.herdsman.owed import owed_results
from agents.herdsman.ownership import Family
from agents.herdsman.presence import Observed, Presence
from agents.herdsman.projection import (
    ANSWERABLE,
    AgentState,
    Evidence,
    is_starting,
    is_terminal,
)
from agents.herdsman.record import Ask, Contents, State


@dataclass(frozen=True, slots=True)
class CloseStep:
    """One generation to be closed.

    Attributes:
        observed: live or lost.
        parent: the agent that it works for; None for the one that the call names.
        is_orphan: that agent is proved to be gone, so nobody can be brought its result any more.
    """

    contents: Contents
    observed: Observed
    parent: Identity | None = None
    is_orphan: bool = False

    @property
    def identity(self) -> Identity:
        """All that names the generation."""
        return self.contents.state.identity


@dataclass(frozen=True, slots=True)
class ClosePlan:
    """All that is closed with one agent.

    Attributes:
        steps: not empty; who works for another comes before it, the agent of the call last.
    """

    steps: tuple[CloseStep, ...]

    @property
    def target(self) -> CloseStep:
        """The agent that the call names."""
        return self.steps[-1]

    @property
    def below(self) -> tuple[CloseStep, ...]:
        """Those that are closed because of it."""
        return self.steps[:-1]


def plan_close(
    target: Contents,
    family: Family,
    observe: Callable[[State], Observed],
    *,
    is_lead: bool,
    unreadable: Sequence[Unreadable],
) -> ClosePlan:
    """Return what closing an agent closes.

    The agent of a delegating agent has none of its own, so it is closed alone; then nothing else
    that is in the workspace matters. A result for an agent that is gone, which nothing can deliver,
    keeps nobody from being closed: whoever closes keeps its text.

    Args:
        target: an agent of the caller itself.
        family: all generations of its workspace, at the same moment.
        observe: tells what an inventory of that moment shows of a generation.
        is_lead: the caller is a person's session.
        unreadable: the mailboxes that cannot be read, at the same moment.

    Raises:
        HerdError: something about it cannot be proved, or a result would be lost
            (TARGET_AMBIGUOUS), or one of them is still being started (AGENT_BUSY).
    """
    if not is_lead:
        concerned: list[tuple[Contents, Identity | None]] = [(target, None)]
    else:
        concerned = _cascade(target, family)
        _check_hidden([contents.state for contents, _ in concerned], unreadable)
    seen = {contents.state.identity: observe(contents.state) for contents, _ in concerned}
    steps = [
        CloseStep(
            contents,
            seen[contents.state.identity],
            parent,
            is_orphan=parent is not None and seen[parent].presence is Presence.LOST,
        )
        for contents, parent in reversed(concerned)
    ]
    for step in steps:
        check_closable(step.contents, step.observed, is_orphan=step.is_orphan)
    return ClosePlan(tuple(steps))


def _check_hidden(states: Sequence[State], unreadable: Iterable[Unreadable]) -> None:
    """Check that nobody works for agents whom a look does not show.

    Raises:
        HerdError: a mailbox that cannot be read may be that of one who does (TARGET_AMBIGUOUS).
    """
    for one in unreadable:
        for state in states:
            if one.may_work_for(state):
                raise ambiguous(
                    f"the mailbox {one.folder} cannot be read, and may be that of an agent which "
                    f"works for {state.of.label!r}",
                    next_action="call agent_list for its diagnostic; a person can move it out of "
                    f"the way, with `pinata herd set-aside {one.folder}`",
                )


def _cascade(target: Contents, family: Family) -> list[tuple[Contents, Identity | None]]:
    """Return an agent and all below it, level by level, each with the one that it works for."""
    found: list[tuple[Contents, Identity | None]] = [(target, None)]
    met = set()
    for contents, _ in found:
        state = contents.state
        if not family.is_led_once(state.session) or state.session in met:
            raise ambiguous(
                f"more than one agent may be meant by the session of {state.of.label!r}",
                next_action="call agent_list, and close agents that are lost first",
            )
        met.add(state.session)
        found.extend((child, state.identity) for child in family.working_for(state.session))
    return found


def check_closable(contents: Contents, observed: Observed, *, is_orphan: bool = False) -> None:
    """Check that closing a generation loses nothing, as its mailbox and an inventory have it now.

    Args:
        contents: its mailbox.
        observed: what an inventory shows of it.
        is_orphan: see `CloseStep`.

    Raises:
        HerdError: TARGET_AMBIGUOUS, or AGENT_BUSY while it is being started.
    """
    label = contents.state.of.label
    if observed.presence is Presence.UNKNOWN:
        raise _unproved(label)
    if is_starting(contents):
        raise busy(f"agent {label!r} is being started", next_action="wait until it has started")
    if owed_results(contents) and not is_orphan:
        raise ambiguous(
            f"a result of agent {label!r} is still to be delivered",
            next_action="go on: the result is delivered, and the agent closed, by itself",
        )


def check_steer(evidence: Evidence) -> None:
    """Check that an agent would take a correction.

    Raises:
        HerdError: it is not there, cannot be told, or takes none now.
    """
    _check_request(evidence, allowed=evidence.can_steer)


def check_interrupt(evidence: Evidence) -> None:
    """Check that an agent can be interrupted.

    Raises:
        HerdError: it is not there, cannot be told, or does nothing that could be interrupted.
    """
    _check_request(evidence, allowed=evidence.can_interrupt)


def check_reply(evidence: Evidence) -> Ask:
    """Return the question that an agent waits with.

    Raises:
        HerdError: it is not there, cannot be told, or waits for no answer; INTERNAL_FAILURE where
            the question cannot be read, and TARGET_NOT_FOUND where it is another one.
    """
    check_inspect(evidence)
    contents = evidence.contents
    ask = contents.open_ask
    if evidence.can_reply and ask is not None:
        return ask
    label = contents.state.of.label
    if contents.state.pending_ask is None or evidence.state not in ANSWERABLE:
        raise busy(
            f"agent {label!r} takes no answer now: {_doing(evidence)}",
            next_action=_remedy(evidence),
        )
    help_out = "close the agent if its assignment can be given up"
    if contents.ask_fault is not None:
        raise broken(
            f"the question of agent {label!r} cannot be read: {contents.ask_fault}",
            next_action=help_out,
        )
    raise not_found(
        f"the question that agent {label!r} waits with is not there", next_action=help_out
    )


def check_inspect(evidence: Evidence) -> None:
    """Check that an agent is proved to be there.

    Raises:
        HerdError: it is gone (TARGET_NOT_FOUND), or that cannot be told (TARGET_AMBIGUOUS).
    """
    label = evidence.contents.state.of.label
    if evidence.is_unknown:
        raise _unproved(label)
    if not evidence.is_live and is_terminal(evidence.contents):
        raise not_found(
            f"agent {label!r} is done: nothing runs it any more", next_action=_remedy(evidence)
        )
    if not evidence.is_live:
        raise not_found(
            f"agent {label!r} is lost: nothing runs it any more",
            next_action="close it with agent_close; its session can be continued then",
        )


def check_transcript(evidence: Evidence, *, transcript_ready: bool) -> None:
    """Check that an agent's saved conversation may be read.

    Raises:
        HerdError: it cannot be told what became of the agent (TARGET_AMBIGUOUS), or nothing is
            saved of its conversation yet (AGENT_BUSY).
    """
    label = evidence.contents.state.of.label
    if evidence.is_unknown or evidence.state is AgentState.UNKNOWN:
        raise _unproved(label)
    if not transcript_ready:
        raise busy(
            f"nothing of the conversation of agent {label!r} is saved yet",
            next_action="do not poll: it is listed in available_tools once there is something",
        )


def _check_request(evidence: Evidence, *, allowed: bool) -> None:
    check_inspect(evidence)
    state = evidence.contents.state
    if not allowed:
        raise busy(
            f"agent {state.of.label!r} takes no such request now: {_doing(evidence)}",
            next_action=_remedy(evidence),
        )


def _doing(evidence: Evidence) -> str:
    """Return what keeps an agent from taking a request."""
    contents = evidence.contents
    if contents.state.result_error is not None:
        return "its result could not be saved"
    if is_terminal(contents):
        return "its assignment is over"
    if is_starting(contents):
        return "it is being started"
    if contents.has_pending_request:
        return "it has not answered an earlier request yet"
    if contents.state.pending_ask is not None:
        return "it waits for an answer to its question"
    if evidence.waits_for_children:
        return "it waits for agents of its own"
    return f"it is {evidence.state.value}"


def _remedy(evidence: Evidence) -> str:
    """Return what helps when an agent takes no request."""
    contents = evidence.contents
    if contents.state.result_error is not None:
        return contents.state.result_error.next_action
    if is_terminal(contents):
        return (
            "go on with something else: its result is delivered by itself while its owner's "
            "session is open; agent_transcript reads it until then"
        )
    if contents.has_pending_request:
        return "do not submit it again: call agent_list to see when the agent has answered"
    if evidence.can_reply:
        return "answer it with agent_reply"
    return "call agent_list for what can be called on it now"


def _unproved(label: str) -> HerdError:
    return ambiguous(
        f"it cannot be told whether agent {label!r} is there",
        next_action="do not guess: nothing can be done to it until agent_list shows it otherwise",
    )
