"""What decided what Git sees before a writer's first attempt, remembered for its later ones.

An attempt that fails because it added a hook must not make the hook a part of how things are.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from engine.core.errors import CorruptionError
from engine.system.files import replace_file
from worktrees.hygiene import Repository
from worktrees.watch import WORKTREE_SETTING

Rules = Mapping[str, str]


def keep_first_rules(seed_index: Path, rules: Rules) -> None:
    """Remember, durably, the rules around the worktree of `seed_index`; blocks."""
    data = json.dumps(dict(rules)).encode("ascii")
    replace_file(_record_beside(seed_index), data, fault="first_rules.record")


def read_first_rules(seed_index: Path) -> Rules | None:
    """Return what `keep_first_rules` remembered, None if it was never called; blocks.

    Raises:
        CorruptionError: it cannot be read.
    """
    path = _record_beside(seed_index)
    try:
        found = json.loads(path.read_bytes())
        return {str(name): str(digest) for name, digest in found.items()}
    except FileNotFoundError:
        return None
    except (ValueError, AttributeError) as error:
        raise CorruptionError(f"{path} is damaged: {error}") from error


def shared_rules(repo: Repository, rules: Rules) -> Rules:
    """Return those of `rules` that hold in all worktrees of a repository."""
    own = (WORKTREE_SETTING, f"{repo.common_dir / 'worktrees'}/")
    return {name: digest for name, digest in rules.items() if not name.startswith(own)}


def _record_beside(seed_index: Path) -> Path:
    return seed_index.with_name(f"{seed_index.name}.rules")
