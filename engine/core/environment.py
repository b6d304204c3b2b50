"""The environment of what agents and checks start: an allow-list, never what the engine has."""

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from engine.core.errors import UsageError

# What a program needs to find its files, its user and its terminal; nothing here carries a secret.
ALLOWED = frozenset(
    {
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "TMPDIR",
        "LANG",
        "LC_ALL",
        "LC_CTYPE",
        "TERM",
        "COLORTERM",
        "XDG_CACHE_HOME",
        "XDG_CONFIG_DIRS",
        "XDG_CONFIG_HOME",
        "XDG_DATA_DIRS",
        "XDG_DATA_HOME",
        "XDG_RUNTIME_DIR",
        "XDG_STATE_HOME",
        "PI_CODING_AGENT_DIR",
    }
)

# Always set: pinata refuses to change anything on behalf of a process that has the first; with the
# others Pi neither asks for a newer version nor downloads tools or catalogues.
FIXED: Mapping[str, str] = MappingProxyType(
    {"PINATA_AGENT": "1", "PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1"}
)

_NAME = re.compile(r"[A-Z][A-Z0-9_]*")
_RESERVED_PREFIXES = ("PINATA_", "HERDR_", "PI_")
# Through these, whoever chooses a value chooses what code other programs run.
_INJECTING_PREFIXES = ("DYLD_", "GIT_")
_INJECTING = frozenset({"NODE_OPTIONS", "LD_PRELOAD", "LD_AUDIT", "BASH_ENV"})


def child_environment(
    base: Mapping[str, str],
    pass_env: Iterable[str] = (),
    extra: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """Return the whole environment of a check or of an agent's shell.

    Args:
        base: the environment of the user who started pinata.
        pass_env: names, already validated, that may come over from `base` besides the allow-list;
            one that is not set there is skipped.
        extra: variables that the caller sets itself; they win over `base`, not over the marks.
    """
    names = ALLOWED.union(pass_env)
    chosen = {name: value for name, value in base.items() if name in names}
    return {**chosen, **extra, **FIXED}


def validate_pass_env(name: str) -> None:
    """Accept the name of a variable that may be handed on.

    Raises:
        UsageError: it is no plain upper-case name, is reserved, or would inject code.
    """
    if _NAME.fullmatch(name) is None:
        raise UsageError(
            f"passEnv name {name!r} is not a variable name of capitals, digits and underscores "
            "that starts with a letter"
        )
    if prefix := _prefix(name, _RESERVED_PREFIXES):
        raise UsageError(f"passEnv name {name!r} is reserved: nothing that starts with {prefix}")
    if name in _INJECTING or _prefix(name, _INJECTING_PREFIXES):
        raise UsageError(
            f"passEnv name {name!r} can make programs run other code; it is never handed on"
        )


def _prefix(name: str, prefixes: tuple[str, ...]) -> str | None:
    return next((prefix for prefix in prefixes if name.startswith(prefix)), None)
