"""The documents of an evidence commit: who changed what, what proved it, and who approved it.

They hold no path of a machine, no conversation, and no content of a file: contents lie beside them
under their object ids.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import TypeAdapter, ValidationError

from checks.proof import CheckProof
from engine.core.errors import CorruptionError
from engine.core.outcome import Status, Verdict
from engine.records.request import explain
from pinata.work.receipt import Receipt
from pinata.work.result import STRICT, StoredChange

MANIFEST = "manifest.json"
DIGESTS = "digests.json"


@dataclass(frozen=True, slots=True)
class PlannedCheck:
    """A check as it was asked for."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    id: str
    argv: tuple[str, ...]
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class ManifestV1:
    """What the evidence is about.

    Attributes:
        order: the writers, predecessors before dependents.
        environment: names of the variables that checks are given.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    run: str
    status: Status
    starting_head: str
    order: tuple[str, ...]
    integrated_checks: tuple[PlannedCheck, ...]
    no_integrated_checks_reason: str | None
    pass_env: tuple[str, ...]
    environment: tuple[str, ...]
    kind: Literal["evidence"] = "evidence"
    v: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class PatchDigest:
    """A patch that lies beside the document; without the changes that are withheld."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    size_bytes: int
    sha256: str

    @classmethod
    def of(cls, patch: bytes) -> "PatchDigest":
        """Return the digest of `patch`."""
        return cls(len(patch), hashlib.sha256(patch).hexdigest())


@dataclass(frozen=True, slots=True)
class WriterV1:
    """What one writer did.

    Attributes:
        uncommitted: whether its base held what the user had not committed.
        predecessors: the writers whose changes its base held.
        withheld: quoted paths of changes whose contents are not in the evidence.
        checks: with paths and folders of the machine taken out.
        submission: what it handed in.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    task: str
    agent: str
    definition: str
    attempt: int
    status: Status
    base_commit: str
    base_tree: str
    result_tree: str
    uncommitted: bool
    predecessors: tuple[str, ...]
    fingerprint: str | None
    changes: tuple[StoredChange, ...]
    withheld: tuple[str, ...]
    patch: PatchDigest
    checks: tuple[CheckProof, ...]
    not_run: tuple[str, ...]
    no_checks_reason: str | None
    submission: Mapping[str, Any] | None
    kind: Literal["writer"] = "writer"
    v: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class ReviewV1:
    """One reviewer's word about one writer's change."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    task: str
    agent: str
    definition: str
    attempt: int
    status: Status
    writer: str
    fingerprint: str
    verdict: Verdict | None
    submission: Mapping[str, Any] | None
    kind: Literal["review"] = "review"
    v: Literal[1] = 1


Document = TypeVar("Document", ManifestV1, WriterV1, ReviewV1, Receipt)
_DIGESTS: TypeAdapter[dict[str, str]] = TypeAdapter(dict[str, str])


def encode_document(document: Document) -> bytes:
    """Return the bytes of a document."""
    return TypeAdapter(type(document)).dump_json(document, indent=1) + b"\n"


def decode_document(kind: type[Document], data: bytes, path: str) -> Document:
    """Return the document in `data`, which lies at `path` of the evidence.

    Raises:
        CorruptionError: it is not one of version 1.
    """
    try:
        return TypeAdapter(kind).validate_json(data)
    except ValidationError as error:
        raise CorruptionError(f"{path} is damaged: {explain(error)}") from error


def encode_digests(documents: Mapping[str, bytes]) -> bytes:
    """Return the document that holds the SHA-256 of every other one, by path."""
    found = {path: hashlib.sha256(data).hexdigest() for path, data in sorted(documents.items())}
    return _DIGESTS.dump_json(found, indent=1) + b"\n"


def altered_documents(documents: Mapping[str, bytes]) -> list[str]:
    """Return the paths of documents that are not what the digests say, missing ones included.

    Raises:
        CorruptionError: the digests cannot be read.
    """
    try:
        said = _DIGESTS.validate_json(documents.get(DIGESTS, b""))
    except ValidationError as error:
        raise CorruptionError(f"{DIGESTS} is damaged: {explain(error)}") from error
    there = {path: data for path, data in documents.items() if path != DIGESTS}
    found = {path: hashlib.sha256(data).hexdigest() for path, data in there.items()}
    return sorted(path for path in found.keys() | said.keys() if found.get(path) != said.get(path))
