"""The folder of a run: where everything lies, results with their history, and finding runs.

Every function blocks; callers on the loop hop to a thread. Folders are 0700 and files 0600. A
result is durable before anything announces it, and is checked against the announced digest when it
is read.
"""

import hashlib
import re
import secrets
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.core.errors import ConflictError, CorruptionError, UsageError
from engine.core.ids import AttemptId, RunId, TaskId
from engine.core.quote import quote_value
from engine.system import files

RESULT_LIMIT_BYTES = 16 << 20
# In the folder of integrations: the journal in force. Whoever only asks whether there is one needs
# nothing else of journals.
JOURNAL_NAME = "journal.json"
_RUN_ID = re.compile(r"[0-9a-f]{16}")
_SHORT_ID_LENGTH = 8
_MOST_NAMED = 5


class UnknownRunError(UsageError):
    """No stored run has an id that starts like this."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        super().__init__(f"unknown run {quote_value(prefix)}: no stored run's id starts like this")


class AmbiguousRunError(UsageError):
    """Several stored runs have ids that start like this."""

    def __init__(self, prefix: str, matches: Sequence[RunId]) -> None:
        self.prefix = prefix
        self.matches = tuple(matches)
        # Short ids that still differ from each other, or they would be ambiguous once more.
        length = max(_SHORT_ID_LENGTH, len(prefix) + 1)
        named = ", ".join(run[:length] for run in self.matches[:_MOST_NAMED])
        more = "" if len(self.matches) <= _MOST_NAMED else ", ..."
        super().__init__(f"run {quote_value(prefix)} is ambiguous; it may be {named}{more}")


class ResultTooLargeError(UsageError):
    """A result is longer than a stored one may be."""

    def __init__(self, attempt: AttemptId, size_bytes: int) -> None:
        self.attempt = attempt
        self.size_bytes = size_bytes
        super().__init__(
            f"the result of task '{attempt.task}' has {size_bytes} bytes, "
            f"more than the {RESULT_LIMIT_BYTES} that are kept; submit less"
        )


@dataclass(frozen=True, slots=True)
class RunFolder:
    """One run's folder, `<git common dir>/pinata/<run>`.

    Attributes:
        path: absolute; its name is the run's id.
    """

    path: Path

    @classmethod
    def create(cls, common_dir: Path) -> "RunFolder":
        """Make the folder of a new run, under an id that nobody can guess.

        Raises:
            ConflictError: `<git common dir>/pinata` is not a folder of this user.
        """
        parent = runs_dir(common_dir)
        files.make_private_dir(parent)
        folder = cls(parent / secrets.token_hex(8))
        folder.path.mkdir(0o700)
        try:
            for inner in (folder.results, folder.transcripts, folder.scratch):
                files.make_private_dir(inner)
            files.sync_dir(parent)
        except BaseException:
            shutil.rmtree(folder.path)
            raise
        return folder

    @classmethod
    def open(cls, common_dir: Path, run: RunId) -> "RunFolder":
        """Return the folder of an existing run.

        Raises:
            UnknownRunError: there is none.
            ConflictError: what stands there is a link or no folder.
        """
        path = runs_dir(common_dir) / run
        if path.is_symlink() or (path.exists() and not path.is_dir()):
            raise ConflictError(f"{path} is not a folder of its own; move it away and try again")
        if not _RUN_ID.fullmatch(run) or not path.is_dir():
            raise UnknownRunError(run)
        return cls(path)

    @property
    def run(self) -> RunId:
        """The run's id, 16 lower-case hexadecimal digits."""
        return RunId(self.path.name)

    @property
    def run_file(self) -> Path:
        """What is fixed before the first agent starts."""
        return self.path / "run.json"

    @property
    def distrust_file(self) -> Path:
        """Why nothing in this folder can be believed; it is there only then."""
        return self.path / "distrusted"

    @property
    def retirement_file(self) -> Path:
        """When and how the run was retired; it is there only then."""
        return self.path / "retired"

    @property
    def events_file(self) -> Path:
        """The event log."""
        return self.path / "events.jsonl"

    @property
    def link_file(self) -> Path:
        """How the run's owner is reached; a crash of the owner leaves it behind."""
        return self.path / "link.json"

    @property
    def link_socket(self) -> Path:
        """Where the run's owner listens, unless that path is too long for a socket."""
        return self.path / "link.sock"

    @property
    def processes_file(self) -> Path:
        """The processes that were started for the run, one JSON line each."""
        return self.path / "processes.jsonl"

    @property
    def scratch(self) -> Path:
        """Private indexes while a call needs them; whatever lies there after a crash is waste."""
        return self.path / "scratch"

    @property
    def indexes(self) -> Path:
        """What is kept about worktrees, out of their agents' reach; it need not be there."""
        return self.path / "indexes"

    @property
    def results(self) -> Path:
        """Saved results."""
        return self.path / "results"

    @property
    def transcripts(self) -> Path:
        """The agents' conversations."""
        return self.path / "transcripts"

    @property
    def integration(self) -> Path:
        """Journals and receipts, and files on their way into or out of the checkout."""
        return self.path / "integration"

    @property
    def handoffs(self) -> Path:
        """Hand-offs of approved changes, a folder each; it need not be there."""
        return self.path / "handoffs"

    @property
    def deliveries(self) -> Path:
        """Of which settlements the run's session was told, a file each; it need not be there."""
        return self.path / "deliveries"

    def result_file(self, task: TaskId) -> Path:
        """Return where the newest result of `task` lies."""
        return self.results / result_name(AttemptId(task, 0))

    def attempt_result_file(self, attempt: AttemptId) -> Path:
        """Return where the result of one attempt lies."""
        return self.results / result_name(attempt)

    def transcript_file(self, attempt: AttemptId) -> Path:
        """Return where the conversation of one attempt lies."""
        return self.transcripts / f"{attempt.task}.{attempt.number}.jsonl"

    def checks_dir(self, attempt: AttemptId) -> Path:
        """Return where the output of an attempt's checks lies; it need not be there."""
        return self.path / "checks" / attempt.task / str(attempt.number)

    def setup_dir(self, attempt: AttemptId) -> Path:
        """Return where the output of setup for an attempt lies; it need not be there."""
        return self.path / "setup" / attempt.task / str(attempt.number)

    def review_file(self, attempt: AttemptId) -> Path:
        """Return where the diff that a reviewer's attempt was given lies."""
        return self.path / "reviews" / f"{attempt.task}.{attempt.number}.diff"

    def patch_file(self, attempt: AttemptId) -> Path:
        """Return where the patch of a writer's attempt lies."""
        return self.path / "patches" / f"{attempt.task}.{attempt.number}.patch"

    def setup_mark(self, task: TaskId) -> Path:
        """Return where it says what setup last succeeded with in a writer's worktree."""
        return self.path / "setup" / task / "done"

    def index_file(self, task: TaskId) -> Path:
        """Return where the engine's own index for a writer's worktree lies."""
        return self.indexes / task

    def pull_index_file(self, number: int) -> Path:
        """Return where the engine's own index for a pull request's worktree lies."""
        return self.indexes / f"pr.{number}"

    def save_result(self, attempt: AttemptId, data: bytes) -> str:
        """Make the result of `attempt` durable and return its SHA-256 in hex.

        Raises:
            ResultTooLargeError: nothing was written.
            OSError: the file system refused.
        """
        return self.save_results([(attempt, data)])[0]

    def save_results(self, results: Sequence[tuple[AttemptId, bytes]]) -> list[str]:
        """Make many results durable at about the price of one; return their digests, in order.

        An attempt's is written twice: under its own name, which stays, and as its task's newest.

        Raises:
            ResultTooLargeError: nothing was written.
            OSError: the file system refused; some may have been written.
        """
        for attempt, data in results:
            if len(data) > RESULT_LIMIT_BYTES:
                raise ResultTooLargeError(attempt, len(data))
        targets = {
            path: data
            for attempt, data in results
            for path in (self.attempt_result_file(attempt), self.result_file(attempt.task))
        }
        files.replace_many(list(targets.items()), fault="store.result")
        return [hashlib.sha256(data).hexdigest() for _, data in results]

    def read_result(self, attempt: AttemptId, digest: str) -> bytes:
        """Return the result of `attempt`, whose digest the log announced.

        Raises:
            CorruptionError: it is missing, too long, no plain file, or not what was announced.
        """
        path = self.attempt_result_file(attempt)
        try:
            data = files.read_regular(path, RESULT_LIMIT_BYTES)
        except FileNotFoundError as error:
            raise CorruptionError(f"{path} is missing, but the event log announced it") from error
        if hashlib.sha256(data).hexdigest() != digest:
            raise CorruptionError(f"{path} is not what the event log announced")
        return data


def result_name(attempt: AttemptId) -> str:
    """Return what the file with the result of `attempt` is called; a task's id has no dot in it.

    That of a task which never started (attempt 0) lies where the newest one does: it says nothing
    that is worth keeping once the task has been tried.
    """
    if not attempt.number:
        return f"{attempt.task}.json"
    return f"{attempt.task}.{attempt.number}.json"


def is_run_id(text: str) -> bool:
    """Return whether `text` has the form of a run's id."""
    return _RUN_ID.fullmatch(text) is not None


def runs_dir(common_dir: Path) -> Path:
    """Return the folder that holds the runs of a repository; it need not be there."""
    return common_dir / "pinata"


def list_runs(common_dir: Path) -> list[RunId]:
    """Return the ids of all stored runs, in the order of their ids.

    A folder without `run.json` is a run that is being made, or whose maker died: it never started
    anything and is not listed.
    """
    parent = runs_dir(common_dir)
    if not parent.is_dir():
        return []
    return sorted(
        RunId(path.name)
        for path in parent.iterdir()
        if _RUN_ID.fullmatch(path.name)
        and not path.is_symlink()
        and RunFolder(path).run_file.is_file()
    )


def list_folders(common_dir: Path) -> list[RunFolder]:
    """Return whatever is called like a run, whether or not one is there, in the order of the ids.

    It may be a link, and it may be a folder without `run.json`; see `list_runs`.
    """
    parent = runs_dir(common_dir)
    if not parent.is_dir():
        return []
    return [RunFolder(path) for path in sorted(parent.iterdir()) if _RUN_ID.fullmatch(path.name)]


def resolve_run(common_dir: Path, prefix: str) -> RunFolder:
    """Return the run whose id is `prefix`, or the only one whose id starts with it.

    Raises:
        UnknownRunError: no run's id does.
        AmbiguousRunError: several do.
        ConflictError: the run's folder is a link.
    """
    if _RUN_ID.fullmatch(prefix):
        return RunFolder.open(common_dir, RunId(prefix))
    matches = [run for run in list_runs(common_dir) if prefix and run.startswith(prefix)]
    match matches:
        case []:
            raise UnknownRunError(prefix)
        case [run]:
            return RunFolder.open(common_dir, run)
        case _:
            raise AmbiguousRunError(prefix, matches)
