"""The saved result of an attempt: what it claimed, what the engine found, and how it ended."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, Literal

from pydantic import TypeAdapter, ValidationError

from checks.proof import CheckProof
from engine.core.changes import Change, ChangeStatus, quote_path, unquote_path
from engine.core.errors import CorruptionError
from engine.core.events import Sender
from engine.core.ids import BlobId, Fingerprint, TaskId
from engine.core.outcome import FailureStage, Status, Verdict
from engine.core.subject import Subject

STRICT: dict[str, Any] = {"extra": "forbid", "strict": True}


@dataclass(frozen=True, slots=True)
class StoredChange:
    """A change whose path is text, quoted as `engine.core.changes.quote_path` does."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    path: str
    status: ChangeStatus
    old_mode: str
    new_mode: str
    old_blob: str
    new_blob: str


@dataclass(frozen=True, slots=True)
class Patch:
    """A writer's change as a file that `git apply` takes."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Artifact:
    """A writer's captured change.

    Attributes:
        base_commit: the commit of the worktree's base; its tree is `base_tree`.
        result_commit: a commit on the base whose tree is `result_tree`; its ref keeps both.
        fingerprint: absent while the change is not verified.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    base_commit: str
    base_tree: str
    result_commit: str
    result_tree: str
    changes: tuple[StoredChange, ...]
    patch: Patch | None = None
    fingerprint: str | None = None


@dataclass(frozen=True, slots=True)
class Review:
    """What a reviewer's verdict is bound to: a writer's change, or changes that exist already.

    Attributes:
        task: the writer; absent when existing changes were judged.
        subject: those changes; absent when a writer's change was judged.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    task: str | None
    fingerprint: str
    verdict: Verdict | None = None
    scope: Literal["builder-artifact", "existing-changes"] = "builder-artifact"
    subject: Subject | None = None

    @classmethod
    def of_subject(cls, subject: Subject) -> "Review":
        """Return the binding of a review of existing changes; there is no verdict yet."""
        return cls(None, subject.fingerprint, scope="existing-changes", subject=subject)


@dataclass(frozen=True, slots=True)
class SteerRecord:
    """A message that reached an agent while it worked; see `agents.steering.Steer`."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    text: str
    sender: Sender
    follow_up: bool = False


@dataclass(frozen=True, slots=True)
class Usage:
    """What an attempt used.

    Attributes:
        cost_usd: absent when a price is unknown.
        refused_calls: how many of the tool calls were refused or failed.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    turns: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0
    refused_calls: int = 0


@dataclass(frozen=True, slots=True)
class SavedResult:
    """Everything that is kept of an attempt.

    Attributes:
        attempt: 0 when the task was never started.
        reason: present on everything that did not succeed.
        submission: the accepted `submit_result` arguments, as the agent gave them.
        not_run: ids of planned checks that were never started.
        checkout_changed: of those who read the live checkout, whether it was another at their end
            than at their start, or for a reviewer than at the start of the run; absent when that is
            unknown, and on everything else.
        steers: messages that reached the agent while it worked, in order; after a repair also those
            of earlier attempts, on whose work it builds.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    task: str
    agent: str
    attempt: int
    status: Status
    reason: str | None = None
    stage: FailureStage | None = None
    submission: Mapping[str, Any] | None = None
    checks: tuple[CheckProof, ...] = ()
    not_run: tuple[str, ...] = ()
    artifact: Artifact | None = None
    review: Review | None = None
    checkout_changed: bool | None = None
    steers: tuple[SteerRecord, ...] = ()
    usage: Usage = field(default_factory=Usage)
    model: str | None = None
    transcript: str | None = None
    notices: tuple[str, ...] = ()
    started_at_ms: int | None = None
    ended_at_ms: int | None = None
    kind: Literal["result"] = "result"
    v: Literal[1] = 1

    @property
    def id(self) -> TaskId:
        """The task's id."""
        return TaskId(self.task)


@cache
def _adapter() -> TypeAdapter[SavedResult]:
    # Built when first used: that takes longer than reading most of them.
    return TypeAdapter(SavedResult)


def encode_result(result: SavedResult) -> bytes:
    """Return the bytes of a saved result."""
    return _adapter().dump_json(result, indent=1) + b"\n"


def decode_result(data: bytes, where: str) -> SavedResult:
    """Return the result in `data`, which was read from `where`.

    Raises:
        CorruptionError: the bytes are not a saved result of version 1.
    """
    try:
        return _adapter().validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the record"
        raise CorruptionError(f"{where}: {place} is damaged: {first['msg']}") from error


def stored_changes(changes: Sequence[Change]) -> tuple[StoredChange, ...]:
    """Return changes in their stored form."""
    return tuple(
        StoredChange(
            path=quote_path(change.path),
            status=change.status,
            old_mode=change.old_mode,
            new_mode=change.new_mode,
            old_blob=change.old_blob,
            new_blob=change.new_blob,
        )
        for change in changes
    )


def changes_of(artifact: Artifact) -> tuple[Change, ...]:
    """Return the changes of an artifact as values."""
    return changes_of_stored(artifact.changes)


def changes_of_stored(changes: Sequence[StoredChange]) -> tuple[Change, ...]:
    """Return changes in their stored form as values."""
    return tuple(
        Change(
            path=unquote_path(stored.path),
            status=stored.status,
            old_mode=stored.old_mode,
            new_mode=stored.new_mode,
            old_blob=BlobId(stored.old_blob),
            new_blob=BlobId(stored.new_blob),
        )
        for stored in changes
    )


def fingerprint_of(result: SavedResult) -> Fingerprint | None:
    """Return the fingerprint of a writer's verified artifact, if there is one."""
    if result.artifact is None or result.artifact.fingerprint is None:
        return None
    return Fingerprint(result.artifact.fingerprint)
