"""Where the herd keeps what lasts, and what all of its parts in one process share."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from agents.herdsman.findings import Remembered, Scan
from agents.herdsman.signals import Signals
from engine.system.clock import Clock
from engine.system.shared_call import SharedCall


def _new_id() -> str:
    return str(uuid.uuid4())


@dataclass(frozen=True, slots=True)
class Premises:
    """The herd's data of one user, as the parts of one process reach it.

    Attributes:
        root: the folder of it all; it need not be there. Never in a temporary directory.
        holder: who this process is, for the message that others get while it holds a lock.
        signals: tells those of this process of changes.
        new_id: gives UUIDs in lower case.
        scans: looks at all mailboxes; see `scan`.
        remembered: what this process found in mailboxes, by their folders' names; see `scan`.
        workspaces: what their agents were started in, by the same names, which tell one place only.
    """

    root: Path
    clock: Clock
    holder: str
    signals: Signals = field(default_factory=Signals)
    new_id: Callable[[], str] = _new_id
    scans: SharedCall[Scan] = field(default_factory=SharedCall, compare=False, repr=False)
    remembered: dict[str, Remembered] = field(default_factory=dict, compare=False, repr=False)
    workspaces: dict[str, str] = field(default_factory=dict, compare=False, repr=False)

    @property
    def config_file(self) -> Path:
        """What the user has set, for all projects."""
        return self.root / "config.json"

    @property
    def results(self) -> Path:
        """Holds the text of each completed assignment, a file each, named by its request."""
        return self.root / "results"

    @property
    def reservations(self) -> Path:
        """Holds a folder for each label, and in it an empty file for each number it has used."""
        return self.root / "result-ref-reservations"

    @property
    def mailboxes(self) -> Path:
        """Holds a folder for each mailbox."""
        return self.root / "runtime" / "mailboxes-v4"

    @property
    def set_aside(self) -> Path:
        """Holds mailboxes that nobody could read and a person moved there; nothing reads it."""
        return self.root / "set-aside"

    @property
    def launches(self) -> Path:
        """Holds a folder for each agent that a living process runs, or a dead one has left."""
        return self.root / "runtime" / "launches"

    @property
    def overflow(self) -> Path:
        """Holds the latest answers that were too long for a model; nothing depends on them."""
        return self.root / "runtime" / "overflow"

    @property
    def locks(self) -> Path:
        """Holds the lock files, which are never removed."""
        return self.root / "runtime" / "locks"
