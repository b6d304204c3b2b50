"""How entries of the herd stand among the lines of a Pi session. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from agents.herdsman.runtime import Entry

# What the kind of each begins with.
_OURS: Final = "pinata-agent-"
# Where each type of entry that extensions write holds what it says to programs.
_DETAILS: Final[Mapping[str, str]] = {"custom": "data", "custom_message": "details"}


def herd_entry(line: Mapping[str, Any], *, on_branch: bool = True) -> Entry | None:
    """Return the entry of the herd that a line is; None where it is somebody else's.

    Args:
        line: as it was read.
        on_branch: see `Entry`.
    """
    kind, details = line.get("customType"), line.get(_DETAILS.get(str(line.get("type")), ""))
    if not isinstance(kind, str) or not kind.startswith(_OURS):
        return None
    return Entry(kind, details if isinstance(details, dict) else {}, on_branch)
