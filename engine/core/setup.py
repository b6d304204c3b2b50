"""How a writer's worktree is made ready: which command installs what the project depends on."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from engine.core.stored import STORED

NO_LOCKFILE = "no lockfile of a known package manager"
_JAVASCRIPT, _PYTHON = "JavaScript", "Python"


class SetupSource(Enum):
    """Where a run's setup command comes from, or why there is none."""

    DETECTED = "detected"
    CONFIG = "config"
    DISABLED = "disabled"
    NONE = "none"
    NOT_NEEDED = "not-needed"


@dataclass(frozen=True, slots=True)
class Setup:
    """What was decided for a run; it does not change while the run works.

    Attributes:
        command: a shell script for each new worktree; only with `DETECTED` and `CONFIG`.
        reason: why no command was found; only with `NONE`.
    """

    __pydantic_config__ = STORED

    source: SetupSource
    command: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class _Manager:
    """A program that installs dependencies.

    Attributes:
        lockfiles: each of them says that the project uses this program.
        variant: a file that tells versions apart which need other words, and the command for it.
    """

    name: str
    ecosystem: str
    lockfiles: tuple[str, ...]
    command: str
    variant: tuple[str, str] | None = None


# Each command installs exactly what the lockfile lists, or fails.
_MANAGERS = (
    _Manager(
        "pnpm", _JAVASCRIPT, ("pnpm-lock.yaml",), "pnpm install --frozen-lockfile --prefer-offline"
    ),
    _Manager("bun", _JAVASCRIPT, ("bun.lock", "bun.lockb"), "bun install --frozen-lockfile"),
    _Manager(
        "yarn",
        _JAVASCRIPT,
        ("yarn.lock",),
        "yarn install --frozen-lockfile",
        variant=(".yarnrc.yml", "yarn install --immutable"),
    ),
    _Manager(
        "npm",
        _JAVASCRIPT,
        ("package-lock.json", "npm-shrinkwrap.json"),
        "npm ci --prefer-offline --no-audit --no-fund",
    ),
    _Manager("uv", _PYTHON, ("uv.lock",), "uv sync --frozen"),
    _Manager("poetry", _PYTHON, ("poetry.lock",), "poetry install --no-interaction"),
    _Manager("pipenv", _PYTHON, ("Pipfile.lock",), "pipenv sync"),
)

# What has to be known of a project's root, and which programs may be asked for.
TELLING_FILES = tuple(
    name for manager in _MANAGERS for name in (*manager.lockfiles, *(manager.variant or ())[:1])
)
MANAGERS = tuple(manager.name for manager in _MANAGERS)


def detect_setup(files: Collection[str], available: Collection[str]) -> Setup:
    """Return what the lockfiles in the root of a run's base ask for.

    Args:
        files: those of `TELLING_FILES` that are regular files there.
        available: those of `MANAGERS` that can be started.
    """
    used = [manager for manager in _MANAGERS if _lockfiles(manager, files)]
    fault = _ambiguity(used, files) or _absence(used, available)
    if fault is not None:
        return Setup(SetupSource.NONE, reason=fault)
    return Setup(SetupSource.DETECTED, " && ".join(_command(each, files) for each in used))


def _lockfiles(manager: _Manager, files: Collection[str]) -> list[str]:
    return [name for name in manager.lockfiles if name in files]


def _ambiguity(used: list[_Manager], files: Collection[str]) -> str | None:
    for ecosystem in (_JAVASCRIPT, _PYTHON):
        rivals = [manager for manager in used if manager.ecosystem == ecosystem]
        if len(rivals) > 1:
            shown = " and ".join(f"{m.name} ({', '.join(_lockfiles(m, files))})" for m in rivals)
            return f"lockfiles of several {ecosystem} package managers: {shown}"
    return None


def _absence(used: list[_Manager], available: Collection[str]) -> str | None:
    if not used:
        return NO_LOCKFILE
    if missing := [manager for manager in used if manager.name not in available]:
        return " and ".join(f"{manager.name} is not on PATH" for manager in missing)
    return None


def _command(manager: _Manager, files: Collection[str]) -> str:
    if manager.variant is not None and manager.variant[0] in files:
        return manager.variant[1]
    return manager.command
