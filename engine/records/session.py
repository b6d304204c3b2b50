"""What is stored of a session: its key, its runs, and which ends of them it was told of."""

from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from engine.core.errors import CorruptionError
from engine.records.request import explain

RECORD_LIMIT_BYTES = 64 << 10
_VERSION_RULE = "1, the version that this program reads"
_Version = Annotated[Literal[1], Field(description=_VERSION_RULE)]


class _Stored(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class SessionRecordV1(_Stored):
    """What `session.json` holds.

    Attributes:
        key: whose folder this is; the folder's name is a digest of it.
    """

    kind: Literal["session"] = "session"
    v: _Version = 1
    key: str


class SessionRunV1(_Stored):
    """Where a run of a session lies; durable before the run is.

    Attributes:
        common_dir: Git's common folder of the run's repository.
        root: the checkout that the run was started from.
    """

    kind: Literal["session-run"] = "session-run"
    v: _Version = 1
    run: str
    common_dir: str
    root: str


class DeliveredV1(_Stored):
    """That a session was told of one settlement of its run.

    Attributes:
        settlement: 1 is the first; 0 stands for what is damaged of the run.
        log_bytes: how much of the log had been read then, if the run was settled and the session
            had been told of every settlement; a log of that length holds nothing to tell.
    """

    kind: Literal["delivered"] = "delivered"
    v: _Version = 1
    run: str
    settlement: Annotated[int, Field(ge=0, description="0 or more")]
    log_bytes: Annotated[int, Field(ge=0, description="0 or more")] | None = None


_Record = TypeVar("_Record", bound=_Stored)


def encode_record(record: SessionRecordV1 | SessionRunV1 | DeliveredV1) -> bytes:
    """Return the bytes of one of these records."""
    return record.model_dump_json(indent=1).encode() + b"\n"


def decode_session(data: bytes, where: str) -> SessionRecordV1:
    """Return the session in `data`, which was read from `where`.

    Raises:
        CorruptionError: the bytes are no such record of version 1.
    """
    return _decode(SessionRecordV1, data, where)


def decode_session_run(data: bytes, where: str) -> SessionRunV1:
    """Return the run of a session in `data`, which was read from `where`.

    Raises:
        CorruptionError: the bytes are no such record of version 1.
    """
    return _decode(SessionRunV1, data, where)


def decode_delivered(data: bytes, where: str) -> DeliveredV1:
    """Return what a session was told of, in `data`, which was read from `where`.

    Raises:
        CorruptionError: the bytes are no such record of version 1.
    """
    return _decode(DeliveredV1, data, where)


def _decode(model: type[_Record], data: bytes, where: str) -> _Record:
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        says = explain(error, model.model_json_schema())
        raise CorruptionError(f"{where} is damaged: {says}") from error
