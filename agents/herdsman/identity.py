"""Who is who in the herd. None of these names ever stands for another one."""

import re
from dataclasses import dataclass
from typing import Final, NewType

# A saved conversation; also who owns an agent, and who asks.
SessionId = NewType("SessionId", str)
# One physical launch for one assignment.
GenerationId = NewType("GenerationId", str)
# One request in a mailbox; a task's is the name of its assignment and of its result as well.
RequestId = NewType("RequestId", str)
AskId = NewType("AskId", str)
# What an owner calls an agent for as long as its assignment lasts; unique in its workspace.
Label = NewType("Label", str)
# Where a generation runs; only the backend that gave it knows more.
Handle = NewType("Handle", str)

LABEL_PATTERN: Final = "^[a-z][a-z0-9_-]{0,31}$"
UUID_PATTERN: Final = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
_LABEL = re.compile(LABEL_PATTERN + r"\Z")
_UUID = re.compile(UUID_PATTERN + r"\Z")


@dataclass(frozen=True, slots=True)
class Correlation:
    """Whose a record is: the same in every record of one generation.

    Attributes:
        owner: the session that the agent works for.
        workspace: the top of the working tree that its owner stands in, else its real folder.
    """

    generation: GenerationId
    owner: SessionId
    workspace: str
    label: Label
    handle: Handle


@dataclass(frozen=True, slots=True)
class Identity:
    """All that names a generation; two are the same only if all of it is equal.

    Attributes:
        of: what its records say.
        session: its own conversation.
        session_file: where that is saved, absolute; it need not be there yet.
        cwd: where it works, absolute.
    """

    of: Correlation
    session: SessionId
    session_file: str
    cwd: str


def is_label(text: str) -> bool:
    """Return whether an agent can be called so."""
    return _LABEL.match(text) is not None


def is_uuid(text: str) -> bool:
    """Return whether a text is a full UUID in lower case, of whatever version."""
    return _UUID.match(text) is not None
