"""The record of a run: everything that is fixed before its first agent starts."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from engine.core.errors import CorruptionError
from engine.core.ids import CommitId, RunId, TreeId
from engine.core.setup import Setup
from engine.core.spec import RunSpec
from engine.core.subject import Subject
from engine.records.request import explain
from engine.records.spec import decode_spec


class RunRecordV1(BaseModel):
    """What `run.json` holds.

    Attributes:
        root: the checkout the run was started from, as a real path.
        started_in: the folder that the run was asked for; relative paths of scripts start there.
        started_at_ms: epoch milliseconds.
        deadline_at_ms: epoch milliseconds after which nothing of the run may go on.
        head: the commit the checkout stood at; absent in a repository without commits.
        base_commit, base_tree: the snapshot that writers start from; absent without writers.
        uncommitted: paths of the snapshot that differ from `head`, quoted as in answers.
        definitions: name to the stored form of each definition that a task names.
        setup: how worktrees are made ready, decided once.
        subjects: of each task that reviews existing changes, what it reviews.
        session: the key of the session that started the run, which is told of each settlement.
        mark: unguessable; every process of the run carries it in its environment.
        spec: the request, in the form of `engine.records.spec`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    kind: Literal["run"] = "run"
    v: Annotated[Literal[1], Field(description="1, the version that this program reads")] = 1
    run: str
    root: str
    started_in: str
    started_at_ms: int
    deadline_at_ms: int
    head: str | None
    base_commit: str | None
    base_tree: str | None
    uncommitted: list[str]
    fold_case: bool
    definitions: dict[str, Any]
    setup: Setup
    subjects: dict[str, Subject] = {}
    session: str | None = None
    mark: str
    notices: list[str]
    spec: dict[str, Any]

    @property
    def id(self) -> RunId:
        """The run's id."""
        return RunId(self.run)

    @property
    def base(self) -> tuple[CommitId, TreeId]:
        """Commit and tree that writers start from; only runs with writers have them."""
        assert self.base_commit is not None
        assert self.base_tree is not None
        return CommitId(self.base_commit), TreeId(self.base_tree)

    def request(self) -> RunSpec:
        """Return the request that the run was started with."""
        return decode_spec(self.spec)


def encode_run(record: RunRecordV1) -> bytes:
    """Return the bytes of `run.json`."""
    return record.model_dump_json(indent=1).encode() + b"\n"


def decode_run(data: bytes, where: str) -> RunRecordV1:
    """Return the record in `data`, which was read from `where`.

    Raises:
        CorruptionError: the bytes are not a run record of version 1.
    """
    try:
        return RunRecordV1.model_validate_json(data)
    except ValidationError as error:
        raise CorruptionError(
            f"{where} is damaged: {explain(error, RunRecordV1.model_json_schema())}"
        ) from error
