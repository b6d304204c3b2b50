"""One look at a working tree, as `git status` reports it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.core.ids import CommitId
from worktrees.hygiene import Repository, git
from worktrees.machine import in_thread

_STATUS = (
    "status",
    "--porcelain=v2",
    "-z",
    "--branch",
    "--no-ahead-behind",
    "--no-renames",
    # A submodule may ask in its configuration to be overlooked; nothing is overlooked here.
    "--ignore-submodules=none",
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One path that is not as the last commit has it.

    Attributes:
        staged, unstaged: Git's status letters for index against HEAD and file against index;
            `.` where nothing differs, `?` on both for an untracked path, `U` on both for an
            unmerged one.
        submodule: Git's four letters about a submodule; `N...` for anything else.
        path: ends in a slash where an untracked repository lies.
    """

    staged: str
    unstaged: str
    submodule: str
    path: bytes

    @property
    def nested(self) -> bool:
        """Whether a repository of its own lies here that this one does not know."""
        return self.unstaged == "?" and self.path.endswith(b"/")


@dataclass(frozen=True, slots=True)
class StatusReading:
    """One look at a working tree.

    Attributes:
        head: None on a branch without a commit.
        entries: in Git's order: tracked paths, then untracked ones, each sorted.
        ignored: ignored paths, if they were asked for; a folder that a rule names as a whole ends
            in a slash.
    """

    head: CommitId | None
    entries: tuple[Entry, ...]
    ignored: tuple[bytes, ...] = ()

    @property
    def unmerged(self) -> tuple[bytes, ...]:
        """Paths that a merge has left open."""
        return tuple(entry.path for entry in self.entries if entry.unstaged == "U")

    @property
    def intended(self) -> tuple[bytes, ...]:
        """Paths that `git add --intent-to-add` announced."""
        return tuple(entry.path for entry in self.entries if entry.unstaged == "A")


async def read_status(
    repo: Repository,
    index: Path,
    settings: Sequence[str] = (),
    *,
    untracked: bool = True,
    ignored: bool = False,
) -> StatusReading:
    """Compare the working tree with `index` and HEAD, once.

    Args:
        repo: where.
        index: usually a private copy; it is not written.
        settings: configuration for this call, each as `name=value`.
        untracked: whether to look for files that `index` does not know.
        ignored: whether to name also what is ignored; only together with `untracked`.
    """
    shown = ["--untracked-files=all" if untracked else "--untracked-files=no"]
    if ignored:
        # A folder such as `node_modules/` is named once and not looked into.
        shown.append("--ignored=matching")
    out = await git(repo, *options(settings), *_STATUS, *shown, index=index)
    return await in_thread(decode_status, out)


def options(settings: Sequence[str]) -> tuple[str, ...]:
    """Return settings, each as `name=value`, as options that go before a subcommand."""
    return tuple(part for setting in settings for part in ("-c", setting))


def decode_status(out: bytes) -> StatusReading:
    """Read the answer of `git status --porcelain=v2 -z --branch`. Source: git-status(1)."""
    head: CommitId | None = None
    entries: list[Entry] = []
    ignored: list[bytes] = []
    for record in out.split(b"\0"):
        match record[:2]:
            case b"1 ":
                entries.append(_tracked_entry(record, fields=8))
            case b"u ":
                path = _tracked_entry(record, fields=10).path
                entries.append(Entry("U", "U", "N...", path))
            case b"? ":
                entries.append(Entry("?", "?", "N...", record[2:]))
            case b"! ":
                ignored.append(record[2:])
            case b"# " if record.startswith(b"# branch.oid ") and record[13:] != b"(initial)":
                head = CommitId(record[13:].decode("ascii"))
            case _:
                pass
    return StatusReading(head, tuple(entries), tuple(ignored))


def _tracked_entry(record: bytes, *, fields: int) -> Entry:
    parts = record.split(b" ", fields)
    letters = parts[1].decode("ascii")
    return Entry(letters[0], letters[1], parts[2].decode("ascii"), parts[fields])
