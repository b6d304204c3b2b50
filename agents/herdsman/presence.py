"""Whether a generation is there, judged from what it says of itself and from one inventory.

Only all of its identity shows an agent, and only the absence of every trace shows that it is gone.
Titles, times, names and process numbers show nothing.
"""

import enum
from dataclasses import dataclass

from agents.herdsman.identity import Correlation, Identity
from agents.herdsman.runtime import Inventory, Lifecycle, LiveAgent


class Presence(enum.Enum):
    """What an inventory proves about one generation."""

    LIVE = "live"
    LOST = "lost"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Observed:
    """What an inventory showed of one generation.

    Attributes:
        agent: the generation's own; of a live one alone, and there always.
    """

    presence: Presence
    agent: LiveAgent | None = None

    @property
    def lifecycle(self) -> Lifecycle:
        """What it does; unknown for one that is not seen."""
        return Lifecycle.UNKNOWN if self.agent is None else self.agent.lifecycle


def alias_of(of: Correlation) -> str:
    """Return the only name that a backend which names its places gives to a generation's."""
    return f"{of.label}-{of.generation}"


def lifecycle_of(value: object) -> Lifecycle:
    """Return the lifecycle that a backend reports; whatever is none of them is unknown."""
    try:
        return Lifecycle(value)
    except ValueError:
        return Lifecycle.UNKNOWN


def observe(identity: Identity, inventory: Inventory) -> Observed:
    """Return what an inventory that was taken whole shows of a generation.

    Whoever could not take one has nothing to ask here: a look that failed shows nobody's absence.
    """
    related = [agent for agent in inventory.agents if _is_related(agent, identity)]
    places = [slot for slot in inventory.slots if slot.handle == identity.of.handle]
    claims = [slot for slot in inventory.slots if slot.session == identity.session]
    if not related and not places and not claims:
        return Observed(Presence.LOST)
    # One agent, one place, and the two speak of nobody else.
    if (
        len(related) == 1
        and len(places) == 1
        and _is_exact(related[0], identity)
        and places[0].session in (None, identity.session)
        and all(slot is places[0] for slot in claims)
    ):
        return Observed(Presence.LIVE, related[0])
    return Observed(Presence.UNKNOWN)


def _is_exact(agent: LiveAgent, identity: Identity) -> bool:
    return (
        agent.alias in (None, alias_of(identity.of))
        and agent.workspace == identity.of.workspace
        and agent.handle == identity.of.handle
        and agent.cwd in (None, identity.cwd)
        and agent.session == identity.session
        and agent.session_file == identity.session_file
    )


def _is_related(agent: LiveAgent, identity: Identity) -> bool:
    return (
        agent.alias == alias_of(identity.of)
        or agent.session == identity.session
        or agent.session_file == identity.session_file
        or agent.handle == identity.of.handle
    )
