"""What an agent that delegates has not been brought by its own agents."""

from collections.abc import Sequence

from agents.herdsman.identity import SessionId
from agents.herdsman.owed import owes_work
from agents.herdsman.premises import Premises
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
    others = [one.state.of.label for one in own if not one.open_ask and owes_work(one, entries)]
    return Undelivered(tuple(asking), tuple(others))
