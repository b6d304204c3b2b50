"""Whether a generation is there, judged from what it says of itself and from one inventory.

Only all of its identity shows an agent, and only the absence of every trace shows that it is gone.
Titles, times, names and process numbers show nothing.
"""

import enum
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agents.herdsman.identity import Correlation, Handle, Identity, SessionId
from agents.herdsman.runtime import Inventory, Lifecycle, LiveAgent, Slot


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


class Sightings:
    """An inventory that was taken whole, by all that may speak of a generation.

    Whoever could not take one has nothing to ask here: a look that failed shows nobody's absence.
    """

    def __init__(self, inventory: Inventory) -> None:
        """Sort what the inventory tells."""
        self._agents = inventory.agents
        self._traces: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        self._places: defaultdict[Handle, list[Slot]] = defaultdict(list)
        self._claims: defaultdict[SessionId, list[Slot]] = defaultdict(list)
        for number, agent in enumerate(inventory.agents):
            for trace in _traces(agent):
                self._traces[trace].append(number)
        for slot in inventory.slots:
            self._places[slot.handle].append(slot)
            if slot.session is not None:
                self._claims[slot.session].append(slot)

    def observe(self, identity: Identity) -> Observed:
        """Return what the inventory shows of a generation."""
        related = self._related(identity)
        places = self._places.get(identity.of.handle, ())
        claims = self._claims.get(identity.session, ())
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

    def _related(self, identity: Identity) -> Sequence[LiveAgent]:
        """Return the agents that share anything with a generation."""
        traces = (
            ("alias", alias_of(identity.of)),
            ("session", identity.session),
            ("file", identity.session_file),
            ("handle", identity.of.handle),
        )
        # One that is met by several traces is one; two that are equal are two.
        found = {number for trace in traces for number in self._traces.get(trace, ())}
        return [self._agents[number] for number in sorted(found)]


def observe(identity: Identity, inventory: Inventory) -> Observed:
    """Return what an inventory shows of one generation."""
    return Sightings(inventory).observe(identity)


def _traces(agent: LiveAgent) -> Iterator[tuple[str, str]]:
    """Return all by which an agent may be taken for a generation."""
    yield "session", agent.session
    yield "file", agent.session_file
    yield "handle", agent.handle
    if agent.alias is not None:
        yield "alias", agent.alias


def _is_exact(agent: LiveAgent, identity: Identity) -> bool:
    return (
        agent.alias in (None, alias_of(identity.of))
        and agent.workspace == identity.of.workspace
        and agent.handle == identity.of.handle
        and agent.cwd in (None, identity.cwd)
        and agent.session == identity.session
        and agent.session_file == identity.session_file
    )
