"""What a new agent is called when nobody says: its definition's name, with a number if need be."""

import re
from collections.abc import Iterator

from agents.herdsman.identity import Label

_LONGEST_CHARS = 32
_MOST_NUMBERS = 999
_NOT_IN_LABELS = re.compile(r"[^a-z0-9_-]")
_BEFORE_A_LETTER = re.compile(r"^[^a-z]+")
# For a definition whose name has no letter that a label can have.
_ANY_AGENT = "agent"


def label_candidates(definition: str) -> Iterator[Label]:
    """Yield labels for agents of a definition: its name, then with 2, 3, … up to 999.

    Args:
        definition: its name, whatever characters it has.
    """
    base = _BEFORE_A_LETTER.sub("", _NOT_IN_LABELS.sub("-", definition.lower())) or _ANY_AGENT
    yield Label(base[:_LONGEST_CHARS])
    for number in range(2, _MOST_NUMBERS + 1):
        suffix = f"-{number}"
        yield Label(base[: _LONGEST_CHARS - len(suffix)] + suffix)
