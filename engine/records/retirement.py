"""The mark of a run whose worktrees and keep-refs were given up."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class RetirementV1(BaseModel):
    """What the file `retired` of a run holds; that it is there is what counts.

    Attributes:
        at_ms: epoch milliseconds.
        discarded: whether somebody named the run as one whose change is not wanted.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    kind: Literal["retirement"] = "retirement"
    v: Annotated[Literal[1], Field(description="1, the version that this program reads")] = 1
    run: str
    at_ms: int
    discarded: bool


def encode_retirement(record: RetirementV1) -> bytes:
    """Return the bytes of the mark."""
    return record.model_dump_json(indent=1).encode() + b"\n"
