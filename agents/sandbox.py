"""What a script in the sandbox can do next, and the limits that hold for it.

The sandbox itself is in `agents.sandbox_process`, which loads its library.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from engine.core.errors import ExternalError

# How long a script may compute; what its calls take does not count. A script that computes inside
# one endless operation, where the sandbox cannot look at the clock, is killed a second later.
RUN_LIMIT_S = 10.0
GRACE_S = 1.0
MEMORY_LIMIT_BYTES = 128 << 20
MAX_DEPTH = 1_000
# Everything that one script asks for: tool calls, names that it does not define, refused wishes.
MAX_QUESTIONS = 1_000


@dataclass(frozen=True, slots=True)
class ScriptCall:
    """The script calls a tool and waits.

    Attributes:
        positional: the arguments without a name.
        named: the others.
    """

    tool: str
    positional: tuple[object, ...]
    named: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ScriptDone:
    """The script came to its end; `value` shows what its last expression was, None for nothing."""

    value: str | None


@dataclass(frozen=True, slots=True)
class ScriptFailed:
    """The script was stopped; `message` says why and where, for the model that wrote it."""

    message: str


ScriptStep = ScriptCall | ScriptDone | ScriptFailed


class SandboxError(ExternalError):
    """The sandbox cannot be started."""
