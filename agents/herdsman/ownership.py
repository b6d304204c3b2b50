"""Who works for whom, told from the sessions in the records alone.

A generation's parent is the one in its workspace that leads the session it works for. Where two
could be meant, none is: what cannot be attributed is shown to nobody.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from agents.herdsman.identity import Label, SessionId
from agents.herdsman.record import Contents


@dataclass(frozen=True, slots=True)
class Visible:
    """A generation that a session may see.

    Attributes:
        parent_label: the agent that it works for; None where it works for the session itself.
    """

    contents: Contents
    parent_label: Label | None = None

    @property
    def is_direct(self) -> bool:
        """Whether it works for the session itself, and not for an agent of it."""
        return self.parent_label is None


class Family:
    """The generations of one workspace, by who works for whom."""

    def __init__(self, contents: Sequence[Contents], workspace: str) -> None:
        """Sort the generations of `workspace` out of all there are."""
        self._members = [one for one in contents if one.state.of.workspace == workspace]
        self._leading = Counter(one.state.session for one in self._members)
        self._by_session = {one.state.session: one for one in self._members}
        self._by_owner: dict[SessionId, list[Contents]] = {}
        for one in sorted(self._members, key=_label):
            self._by_owner.setdefault(one.state.of.owner, []).append(one)

    def is_led_once(self, session: SessionId) -> bool:
        """Return whether exactly one generation leads a session."""
        return self._leading[session] == 1

    def is_led(self, session: SessionId) -> bool:
        """Return whether any generation leads a session."""
        return session in self._leading

    def working_for(self, session: SessionId) -> Sequence[Contents]:
        """Return the generations that name a session as their owner, by label."""
        return self._by_owner.get(session, ())

    def children(self, parent: Contents) -> tuple[Contents, ...]:
        """Return an agent's own agents, by label; none where two agents could be meant."""
        session = parent.state.session
        if not self.is_led_once(session):
            return ()
        return tuple(self.working_for(session))

    def below(self, root: SessionId) -> tuple[Visible, ...]:
        """Return all that work for a session that is no agent's, and for agents of it in turn.

        Those of the session itself come first; each group goes by label. A session that a record
        calls an agent's may be meant as that, so nothing is attributed to it.
        """
        if self.is_led(root):
            return ()
        found: list[Visible] = [Visible(one) for one in self.working_for(root)]
        # Each generation names one owner and each owner here is led once, so nobody comes up
        # twice, and who works in a circle is never reached from outside of it.
        for parent in found:
            label = parent.contents.state.of.label
            found += (Visible(child, label) for child in self.children(parent.contents))
        return (
            *(one for one in found if one.is_direct),
            *sorted(
                (one for one in found if not one.is_direct), key=lambda one: _label(one.contents)
            ),
        )


def _label(contents: Contents) -> str:
    return contents.state.of.label
