"""What a Pi that is an agent is told by that a message waits for it. Pure."""

from typing import Final

# An id follows, and nothing else.
MARKER: Final = "__PI_HERDSMAN_AGENT_V4__:"


def is_marker(text: str) -> bool:
    """Return whether a text is one that no model may read."""
    return text.startswith(MARKER)
