"""What an agent that delegates has not been brought by its own agents."""

from collections.abc import Sequence

from agents.herdsman.identity import SessionId
from agents.herdsman.premises import Premises
from agents.herdsman.record import Contents
from agents.herdsman.result_text import is_delivered
from agents.herdsman.runtime import Entry
from agents.herdsman.scan import scan
from agents.herdsman.settlement import Undelivered


async def find_undelivered(
    premises: Premises, session: SessionId, entries: Sequence[Entry]
) -> Undelivered:
    """Return which agents of a session's own have not brought it their work.

    Args:
        premises: of the herd.
        session: the agent that delegated.
        entries: of its history.

    Raises:
        ExternalError: the mailboxes cannot be read.
    """
    found = await scan(premises)
    own = [one for one in found.contents if one.state.of.owner == session]
    asking = [one.state.of.label for one in own if one.open_ask]
    others = [
        one.state.of.label for one in own if not one.open_ask and _is_unfinished(one, entries)
    ]
    return Undelivered(tuple(asking), tuple(others))


def _is_unfinished(one: Contents, entries: Sequence[Entry]) -> bool:
    state = one.state
    if state.result_error is not None or state.active is not None:
        return True
    return state.completed is not None and not is_delivered(state, state.completed, entries)
