"""The journal of one integration: the whole plan and how far it got, durable before each step.

A journal names what stood at each path before and what stands there after, down to bytes and
permission bits, so that whoever finds it after a crash can tell the two apart from anything else.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from engine.core.ids import BlobId, CommitId
from engine.store import JOURNAL_NAME

# A folder of slots beside the checkout, when the run's own is on another file system.
HIDDEN_PREFIX = ".pinata-"


class JournalState(Enum):
    """How far an integration got."""

    APPLYING = "applying"
    VERIFYING = "verifying"
    VERIFIED = "verified"
    APPLIED_UNVERIFIED = "applied_unverified"
    VERIFICATION_FAILED = "verification_failed"
    ROLLING_BACK = "rolling_back"
    ROLLED_BACK = "rolled_back"


_FINAL = frozenset(
    {JournalState.VERIFIED, JournalState.APPLIED_UNVERIFIED, JournalState.VERIFICATION_FAILED}
)
NEXT_STATES: Mapping[JournalState, frozenset[JournalState]] = {
    JournalState.APPLYING: frozenset({JournalState.VERIFYING, JournalState.ROLLING_BACK}),
    JournalState.VERIFYING: _FINAL | {JournalState.VERIFYING, JournalState.ROLLING_BACK},
    JournalState.VERIFIED: frozenset({JournalState.VERIFYING, JournalState.ROLLING_BACK}),
    JournalState.APPLIED_UNVERIFIED: frozenset({JournalState.VERIFYING, JournalState.ROLLING_BACK}),
    JournalState.VERIFICATION_FAILED: frozenset(
        {JournalState.VERIFYING, JournalState.ROLLING_BACK}
    ),
    JournalState.ROLLING_BACK: frozenset({JournalState.ROLLING_BACK, JournalState.ROLLED_BACK}),
    JournalState.ROLLED_BACK: frozenset(),
}


class FileKind(Enum):
    """What an entry of a folder is, as far as Git can store it."""

    FILE = "file"
    SYMLINK = "symlink"


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """Which file it is, and that nobody wrote to it since: cheaper to compare than bytes.

    Attributes:
        settled: False when the file was written so shortly before it was read that a later write
            may carry the same time; then only its bytes can tell.
    """

    device: int
    inode: int
    mtime_ns: int
    settled: bool


@dataclass(frozen=True, slots=True)
class FileState:
    """What stands at a path, exactly.

    Attributes:
        mode: Git's mode, six octal digits.
        blob: the content as Git stores it.
        permissions: the full permission bits on disk; they mean nothing for a symbolic link.
        size: in bytes, as it lies on disk.
        sha256: of the bytes on disk, or of the link's target, in hex.
    """

    kind: FileKind
    mode: str
    blob: BlobId
    permissions: int
    size: int
    sha256: str
    identity: FileIdentity

    def same_content(self, other: "FileState") -> bool:
        """Whether both are the same to everyone who reads them: kind, permissions and bytes."""
        return (
            self.kind is other.kind
            and (self.kind is FileKind.SYMLINK or self.permissions == other.permissions)
            and self.size == other.size
            and self.sha256 == other.sha256
        )


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One path of the plan; None on the side where nothing stands there."""

    path: bytes
    before: FileState | None
    after: FileState | None

    @property
    def is_void(self) -> bool:
        """Whether it moves nothing: it was taken out of a plan that another was built upon."""
        return self.before == self.after


@dataclass(frozen=True, slots=True)
class RemovedFolder:
    """A folder that the plan empties and removes."""

    path: bytes
    permissions: int


@dataclass(frozen=True, slots=True)
class Journal:
    """Plan and progress of one integration.

    Attributes:
        folder: where the journal lies.
        number: counts the integrations of the run from 1.
        evidence_digest: which evidence the plan carries out.
        root: the checkout.
        head: its HEAD when the plan was made; None on a branch without a commit.
        index_digest: its index then.
        slots: the folder with one slot per entry, named by its number: what will take the path's
            place before the move, what had it afterwards.
        entries: sorted by path, each path once.
        removed_folders: sorted by path.
        made_folders: folders that the plan creates, sorted by path.
        in_one_step: whether the file system replaces a file without it ever being absent.
        earlier: the integration that was in force when this one was planned, of which nothing had
            to be taken back first. Before this plan the checkout held what that one led to, and
            before that one what it says. Its entries that were not in force are void.
    """

    folder: Path
    number: int
    state: JournalState
    evidence_digest: str
    root: Path
    head: CommitId | None
    index_digest: str
    slots: Path
    entries: tuple[JournalEntry, ...]
    removed_folders: tuple[RemovedFolder, ...]
    made_folders: tuple[bytes, ...]
    in_one_step: bool = True
    earlier: "Journal | None" = None

    @property
    def file(self) -> Path:
        """Where the journal is stored."""
        return self.folder / JOURNAL_NAME

    @property
    def layers(self) -> "tuple[Journal, ...]":
        """This one and all that it was built upon, the newest first."""
        return (self,) if self.earlier is None else (self, *self.earlier.layers)
