"""Whether what a project says about agents and settings is heeded: its user decides, not itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath

from engine.core.errors import UsageError
from engine.core.quote import quote_value
from engine.records.json_text import decode_json
from engine.system.files import is_there, read_input

_FILE = "trust.json"
_LIMIT_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Project:
    """A checkout whose own definitions and settings may count.

    Attributes:
        root: its top folder.
        objection: why they do not count; None when the project is trusted.
    """

    root: Path
    objection: str | None = None

    @property
    def is_trusted(self) -> bool:
        """Whether the project's own definitions and settings count."""
        return self.objection is None

    def ignored(self, path: Path) -> str:
        """Return the sentence that tells that `path` is ignored, and how to change that."""
        return f"{path} is ignored: {self.objection}"


def is_trusted(root: PurePath, saved: Mapping[str, bool | None], *, stated: bool | None) -> bool:
    """Return whether the project at `root` is trusted: only if somebody said so.

    Args:
        root: a real path, without links.
        saved: Pi's decisions, by folder; the nearest at or above `root` counts, None is none.
        stated: what the caller says, which wins.
    """
    if stated is not None:
        return stated
    decisions = (saved.get(str(folder)) for folder in (root, *root.parents))
    return next((decision for decision in decisions if decision is not None), False)


def judge_project(root: Path, agent_dir: Path | None, *, stated: bool | None) -> Project:
    """Return the project at `root` as far as it is trusted; blocks.

    Args:
        root: the top folder of a checkout.
        agent_dir: the Pi agent directory, which holds Pi's decisions.
        stated: what the caller says; None leaves it to Pi's decisions.
    """
    real = root.resolve()
    try:
        saved = {} if stated is not None or agent_dir is None else _read(agent_dir / _FILE)
    except UsageError as error:
        return Project(root, f"{error}; mend it, or pass --trust-project")
    if is_trusted(real, saved, stated=stated):
        return Project(root)
    return Project(
        root, "the project is not trusted; pass --trust-project, or decide with /trust in Pi"
    )


def _read(path: Path) -> dict[str, bool | None]:
    """Return the decisions that Pi saved.

    Raises:
        UsageError: they cannot be read.
    """
    if not is_there(path):
        return {}
    saved = decode_json(read_input(path, _LIMIT_BYTES), str(path))
    if not isinstance(saved, dict):
        raise UsageError(f"{path}: {quote_value(saved)} is not an object")
    for folder, decision in saved.items():
        if decision is not None and not isinstance(decision, bool):
            raise UsageError(f"{path}: {quote_value(folder)}: must be true, false or null")
    return saved
