"""What a look at the mailboxes of a user finds; values alone."""

from dataclasses import dataclass
from typing import Final

from agents.herdsman.identity import SessionId
from agents.herdsman.record import Contents, State

# What is said of a mailbox that cannot be read, or of a record in one.
DIAGNOSTIC_LIMIT_CHARS: Final = 256


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A mailbox that is there and whose agent nobody knows.

    Attributes:
        folder: its name.
        diagnostic: what is wrong with it, on a line.
        workspace: that its agent was started in; None where that is not proved.
        owner: the session that its agent works for; likewise.
    """

    folder: str
    diagnostic: str
    workspace: str | None = None
    owner: SessionId | None = None

    def may_be_of(self, owner: SessionId, workspace: str | None) -> bool:
        """Return whether its agent may work for a session, in a workspace or, with None, in any."""
        is_there = workspace is None or self.workspace in (None, workspace)
        return is_there and self.owner in (None, owner)

    def may_work_for(self, state: State) -> bool:
        """Return whether its agent may be one that an agent with this state has started."""
        return state.delegates is not False and self.may_be_of(state.session, state.of.workspace)


@dataclass(frozen=True, slots=True)
class Scan:
    """What one look found.

    Attributes:
        contents: of each mailbox whose state is readable, by workspace and label.
        unreadable: the others, those that were touched last first.
    """

    contents: tuple[Contents, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()


@dataclass(frozen=True, slots=True)
class Remembered:
    """What was in a mailbox, and what its files looked like then.

    Attributes:
        stamps: inode, size and times of its folder and of the files that it was read from.
    """

    stamps: tuple[int, ...]
    contents: Contents
