"""Evidence as a commit: documents, and the contents that they speak of, in one tree.

Beside the documents the tree has a folder `files`, in which every content lies under its own object
id. Nothing else is reachable from it but the evidence before it, so pushing its ref takes along
exactly what is to be judged.
"""

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import trio
from pygit2.enums import ObjectType

from engine.core.changes import FILE_MODE
from engine.core.errors import ConflictError, CorruptionError, UsageError
from engine.core.ids import BlobId, CommitId, RunId, TreeId
from worktrees.apply_stage import StoredFile
from worktrees.collection import keep_whole
from worktrees.hygiene import GitError, Repository, git
from worktrees.objects import OWN_NAME, ObjectStore, TreeEntry, with_objects
from worktrees.refs import evidence_ref, read_ref

FILES = "files"
_FULL_ID = re.compile(r"[0-9a-f]{40}")
# One parent at most, and no header but those that are written here.
_OWN_COMMIT = re.compile(
    rb"tree ([0-9a-f]{40})\n(?:parent ([0-9a-f]{40})\n)?"
    rb"(?:(?:author|committer) " + re.escape(OWN_NAME) + rb" \d+ \+0000\n){2}\n([^\n]*)\n"
)
_DOCUMENT_PATH = re.compile(r"[a-z]+\.json|[a-z]+/[^/]+\.(?:json|patch)")
_DOCUMENT_NAME = re.compile(rb"[a-z0-9][a-z0-9.-]{0,79}")
_MOST_DOCUMENTS = 10_000
_MOST_FILES = 200_000
_DOCUMENTS_LIMIT_BYTES = 512 << 20


class NoEvidenceError(UsageError):
    """What is named as evidence is not there, or is none."""

    def __init__(self, name: str, fault: str | None = None) -> None:
        self.name = name
        super().__init__(
            fault
            or f"there is no evidence {name} here: fetch its ref, refs/pinata/<run>/evidence, first"
        )


class ForeignEvidenceError(ConflictError):
    """A run's evidence ref holds something that nobody wrote as evidence of that run."""

    def __init__(self, ref: str, commit: CommitId, reason: str) -> None:
        self.ref = ref
        self.commit = commit
        super().__init__(
            f"{ref} holds commit {commit}, which is no evidence of the run ({reason}): "
            f"delete the ref with `git update-ref -d {ref}` and try again"
        )


@dataclass(frozen=True, slots=True)
class EvidenceTree:
    """What one evidence commit holds.

    Attributes:
        documents: their contents by path, such as `writers/fix.json`.
        files: the ids of the contents that lie in it.
    """

    documents: Mapping[str, bytes]
    files: frozenset[BlobId]


async def keep_evidence(
    repo: Repository, run: RunId, evidence: EvidenceTree, at_ms: int
) -> CommitId:
    """Store evidence on top of the run's earlier one, and keep it by the run's evidence ref.

    The same evidence as before makes no new commit.

    Args:
        repo: where; it holds every content of `evidence.files`.
        run: whose evidence it is.
        evidence: what to store.
        at_ms: the commit's time, in milliseconds since 1970.

    Raises:
        ForeignEvidenceError: what the ref holds is no evidence of the run.
        RefMovedError: somebody else moved the ref.
        CollectedError: a garbage collection deleted what had just been written.
    """
    ref = evidence_ref(run)
    before = await read_ref(repo, ref)
    parents = () if before is None else (CommitId(before),)
    if parents:
        await ensure_evidence(repo, run, parents[0])

    def store_commit(store: ObjectStore) -> CommitId:
        tree = _store(store, evidence)
        if parents and store.commit_tree(parents[0]) == tree:
            return parents[0]
        return store.commit(parents, tree, f"pinata: evidence of {run}\n", at_ms // 1000)

    commit = await with_objects(repo, store_commit)
    if commit != before:
        await keep_whole(repo, ref, commit, None if before is None else CommitId(before))
    return commit


async def ensure_evidence(repo: Repository, run: RunId, commit: CommitId) -> None:
    """Refuse a commit that is not evidence of a run, back to the run's first.

    Pushing evidence takes along all that is reachable from it, so a stranger among its ancestors
    would travel too.

    Raises:
        ForeignEvidenceError: one of the commits is not shaped like evidence of the run.
    """
    await with_objects(repo, lambda store: _ancestry(store, run, commit))


async def is_later_evidence(
    repo: Repository, run: RunId, commit: CommitId, earlier: CommitId
) -> bool:
    """Return whether a commit is evidence of a run that was built upon some earlier one of it."""
    try:
        return earlier in await with_objects(repo, lambda store: _ancestry(store, run, commit))
    except ForeignEvidenceError:
        return False


def _ancestry(store: ObjectStore, run: RunId, commit: CommitId) -> list[CommitId]:
    """Return a commit and all evidence before it, the newest first; see `ensure_evidence`."""
    found = [commit]
    while True:
        try:
            before = _evidence_before(store, run, found[-1])
        except CorruptionError as error:
            raise ForeignEvidenceError(evidence_ref(run), found[-1], str(error)) from error
        if before is None:
            return found
        found.append(before)


def _evidence_before(store: ObjectStore, run: RunId, commit: CommitId) -> CommitId | None:
    """Return the evidence that `commit` was built on, if any, having looked at its own shape.

    Raises:
        CorruptionError: it is no evidence, or an object of it is missing.
    """
    said = _OWN_COMMIT.fullmatch(store.read(commit, ObjectType.COMMIT))
    if said is None or said[3] != f"pinata: evidence of {run}".encode():
        raise CorruptionError("pinata did not write it")
    for path, entry in _entries(store, commit):
        if path == FILES and entry.is_folder:
            _file_ids(store, entry)
        elif entry.mode != FILE_MODE or not _DOCUMENT_PATH.fullmatch(path):
            raise CorruptionError(f"evidence holds no {path}")
    return None if said[2] is None else CommitId(said[2].decode("ascii"))


def _store(store: ObjectStore, evidence: EvidenceTree) -> TreeId:
    edits: dict[bytes, TreeEntry | None] = {
        path.encode(): TreeEntry(FILE_MODE, store.write_blob(data))
        for path, data in evidence.documents.items()
    }
    edits |= {f"{FILES}/{blob}".encode(): TreeEntry(FILE_MODE, blob) for blob in evidence.files}
    return store.edit(store.write_tree({}), edits)


async def find_evidence(repo: Repository, name: str) -> tuple[CommitId, bool]:
    """Return the commit that `name` stands for, and whether it names it for good.

    Args:
        repo: where.
        name: a commit's full id, which names it for good, or a ref.

    Raises:
        NoEvidenceError: there is no such commit here.
    """
    if not name:
        fault = "the evidence is empty: does the commit have a Pinata-Evidence trailer?"
        raise NoEvidenceError(name, fault)
    is_id = _FULL_ID.fullmatch(name) is not None
    try:
        found = await read_ref(repo, f"{name}^{{commit}}") if not name.startswith("-") else None
    except GitError as error:
        raise NoEvidenceError(name) from error
    if found is None or (is_id and found != name):
        raise NoEvidenceError(name)
    return CommitId(found), is_id


async def ensure_named(repo: Repository, name: str, commit: CommitId, one_of: set[str]) -> None:
    """Refuse a commit that cannot have been meant as evidence, such as one of the user's.

    Args:
        repo: where.
        name: how the commit was named.
        commit: which it is.
        one_of: documents of which all evidence has one at least, however it was bent.

    Raises:
        NoEvidenceError: it has none of them.
        CorruptionError: an object of it is missing.
    """
    held = await with_objects(repo, lambda store: set(store.tree(store.commit_tree(commit))))
    if not held & {document.encode() for document in one_of}:
        fault = f"{name} is a commit, but no evidence: name a ref like refs/pinata/<run>/evidence"
        raise NoEvidenceError(name, fault)


async def read_evidence(repo: Repository, commit: CommitId) -> EvidenceTree:
    """Return what an evidence commit holds.

    Raises:
        CorruptionError: it is no evidence, an object of it is missing, or it is larger than any.
    """
    return await with_objects(repo, lambda store: _read(store, commit))


def _read(store: ObjectStore, commit: CommitId) -> EvidenceTree:
    documents: dict[str, bytes] = {}
    files: frozenset[BlobId] = frozenset()
    room = _DOCUMENTS_LIMIT_BYTES
    for path, entry in _entries(store, commit):
        if path == FILES and entry.is_folder:
            files = _file_ids(store, entry)
            continue
        room -= store.size(entry.object_id)
        if room < 0 or len(documents) >= _MOST_DOCUMENTS:
            raise CorruptionError(f"evidence {commit} is larger than any evidence is")
        documents[path] = store.read(entry.object_id, ObjectType.BLOB)
    return EvidenceTree(documents, files)


def _entries(store: ObjectStore, commit: CommitId) -> list[tuple[str, TreeEntry]]:
    """Return the documents of a commit, one folder deep, and the folder of contents."""
    found: list[tuple[str, TreeEntry]] = []
    for name, entry in store.tree(store.commit_tree(commit)).items():
        top = _document_name(name)
        if not entry.is_folder or top == FILES:
            found.append((top, entry))
            continue
        for inner, below in store.tree(entry.object_id).items():
            if below.is_folder or len(found) > _MOST_DOCUMENTS:
                raise CorruptionError(f"commit {commit} is no evidence: {top} is not its folder")
            found.append((f"{top}/{_document_name(inner)}", below))
    return found


def _document_name(name: bytes) -> str:
    if not _DOCUMENT_NAME.fullmatch(name):
        raise CorruptionError(f"no evidence holds a document named {name!r}")
    return name.decode("ascii")


def _file_ids(store: ObjectStore, folder: TreeEntry) -> frozenset[BlobId]:
    entries = store.tree(folder.object_id)
    if len(entries) > _MOST_FILES:
        raise CorruptionError("the evidence holds more files than any evidence does")
    for name, entry in entries.items():
        if name.decode("ascii", "replace") != entry.object_id or entry.mode != FILE_MODE:
            raise CorruptionError(f"{FILES}/{name!r} of the evidence is not what its name says")
    return frozenset(BlobId(entry.object_id) for entry in entries.values())


async def patched(
    repo: Repository, before: Mapping[bytes, StoredFile], patch: bytes
) -> dict[bytes, StoredFile] | None:
    """Return what a patch makes of some files, None when it does not apply to them exactly.

    Nothing is written into the repository.
    """
    folder = await trio.to_thread.run_sync(
        lambda: tempfile.TemporaryDirectory(prefix="pinata-", ignore_cleanup_errors=True)
    )
    try:
        place = Path(folder.name)
        await trio.to_thread.run_sync((place / "objects").mkdir)
        return await _patched(repo, place, before, patch)
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(folder.cleanup)


async def _patched(
    repo: Repository, place: Path, before: Mapping[bytes, StoredFile], patch: bytes
) -> dict[bytes, StoredFile] | None:
    apart, index = replace(repo, new_objects=place / "objects"), place / "index"
    rows = b"".join(
        f"{file.mode} {file.blob}\t".encode() + path + b"\0" for path, file in before.items()
    )
    await git(apart, "update-index", "-z", "--index-info", index=index, stdin=rows)
    if patch:
        options = ("apply", "--cached", "--whitespace=nowarn", "--unidiff-zero", "-")
        try:
            await git(apart, *options, index=index, stdin=patch)
        except GitError:
            return None
    listing = await git(apart, "ls-files", "--stage", "-z", index=index)
    found: dict[bytes, StoredFile] = {}
    for row in listing.split(b"\0")[:-1]:
        facts, _, path = row.partition(b"\t")
        mode, blob, _ = facts.decode("ascii").split(" ")
        found[path] = StoredFile(path, mode, BlobId(blob))
    return found
