"""Whether anything is still to come that a session's agents bring by themselves. Pure."""

from collections.abc import Sequence

from agents.herdsman.caller import Caller
from agents.herdsman.look import Look
from agents.herdsman.owed import owed_results, untold_results
from agents.herdsman.projection import AgentState, Evidence
from agents.herdsman.questions import is_asked
from agents.herdsman.record import Contents
from agents.herdsman.runtime import Entry


def is_at_work(seen: Look, caller: Caller) -> bool:
    """Return whether an agent of the caller's own will still bring something without being told."""
    return any(_works(seen.evidence(one)) for one in seen.own(caller))


def untold(seen: Look, caller: Caller, entries: Sequence[Entry]) -> int:
    """Return how many results and questions the caller's session does not hold yet."""
    return sum(_is_untold(one, entries) for one in seen.own(caller))


def _works(evidence: Evidence) -> bool:
    contents = evidence.contents
    if contents.state.active is None or contents.state.pending_ask is not None:
        return contents.is_starting
    if owed_results(contents):
        return False
    return evidence.state not in (AgentState.LOST, AgentState.UNKNOWN)


def _is_untold(contents: Contents, entries: Sequence[Entry]) -> bool:
    if untold_results(contents, entries):
        return True
    return contents.open_ask is not None and not is_asked(contents.state, entries)
