"""Digests that bind a verdict to exactly what was judged, recomputable from what is stored."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence

from engine.core.changes import Change, quote_path
from engine.core.ids import Fingerprint, TreeId

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]


def canonical(value: Json) -> bytes:
    """Return the one JSON text of `value`: keys sorted, no spaces, UTF-8."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")


def digest(value: Json) -> str:
    """Return the SHA-256 of the canonical JSON of `value`, in hex."""
    return hashlib.sha256(canonical(value)).hexdigest()


def change_entry(change: Change) -> dict[str, str]:
    """Return the JSON form of a change, the same in records, answers and digests."""
    return {
        "path": quote_path(change.path),
        "status": change.status.value,
        "oldMode": change.old_mode,
        "newMode": change.new_mode,
        "oldBlob": change.old_blob,
        "newBlob": change.new_blob,
    }


def artifact_fingerprint(
    base: TreeId, changes: Iterable[Change], check_digest: str, result_digest: str
) -> Fingerprint:
    """Return the digest over a base tree, the changes to it, their proofs and the claim about them.

    The changes are sorted by path, so their order does not matter. The result tree is not part of
    it: it follows from base and changes, and leaving it out lets the fingerprint be recomputed
    where only the affected files are at hand.
    """
    entries = [change_entry(change) for change in sorted(changes, key=lambda c: c.path)]
    return Fingerprint(
        digest({"base": base, "changes": entries, "checks": check_digest, "result": result_digest})
    )
