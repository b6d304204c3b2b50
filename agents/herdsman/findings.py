"""What a look at the mailboxes of a user finds; values alone."""

from dataclasses import dataclass

from agents.herdsman.record import Contents


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A mailbox that is there and may be anybody's.

    Attributes:
        folder: its name.
        diagnostic: what is wrong with it, on a line.
    """

    folder: str
    diagnostic: str


@dataclass(frozen=True, slots=True)
class Scan:
    """What one look found.

    Attributes:
        contents: of each mailbox whose state is readable, by workspace and label.
        unreadable: the others, those that were touched last first, and no more than 64.
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
