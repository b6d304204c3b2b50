"""What Git went by before a writer's first attempt is remembered, or called damaged."""

from pathlib import Path

import pytest

from engine.core.errors import CorruptionError
from tests.support.repos import RepoBuilder
from worktrees.first_rules import keep_first_rules, read_first_rules, shared_rules


def test_rules_are_read_as_they_were_kept(tmp_path: Path) -> None:
    seed, rules = tmp_path / "fix", {"config core.x": "1", "/odd\udcff\n": "2"}
    assert read_first_rules(seed) is None
    keep_first_rules(seed, rules)
    assert read_first_rules(seed) == rules


@pytest.mark.parametrize("content", ["[]", "{", "\udcff"])
def test_damage_is_told(content: str, tmp_path: Path) -> None:
    (tmp_path / "fix.rules").write_text(content, "utf-8", "surrogateescape")
    with pytest.raises(CorruptionError, match=r"fix\.rules is damaged"):
        read_first_rules(tmp_path / "fix")


async def test_rules_of_one_worktree_are_not_shared(repo: RepoBuilder) -> None:
    checkout = await repo.discovered()
    shared = {"config core.x": "1", str(checkout.common_dir / "hooks" / "x"): "2"}
    tie = str(checkout.common_dir / "worktrees" / "fix" / "gitdir")
    own = {"worktree config core.x": "1", tie: "3"}
    assert shared_rules(checkout, shared | own) == shared
