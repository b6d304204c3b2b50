from pathlib import Path

import pytest

from engine.core.errors import UsageError
from engine.core.ids import RunId, TaskId
from pinata.work.places import Places
from worktrees.hygiene import Repository


def places(root: Path, **environment: str) -> Places:
    git_dir = root / ".git"
    return Places.of(Repository(root, git_dir, git_dir, environment), environment)


def test_worktrees_lie_in_the_users_state_apart_by_repository_run_and_task(tmp_path: Path) -> None:
    found = places(tmp_path / "repo", HOME=str(tmp_path))
    path = found.worktree(RunId("0f"), TaskId("fix"))
    assert path.parts[-2:] == ("0f", "fix")
    assert path.is_relative_to(tmp_path / ".local/state/pinata/worktrees")
    assert (
        places(tmp_path / "other", HOME=str(tmp_path)).worktree(RunId("0f"), TaskId("fix")) != path
    )


def test_relative_state_folder_is_passed_over_as_the_standard_has_it(tmp_path: Path) -> None:
    found = places(tmp_path / "repo", HOME=str(tmp_path), XDG_STATE_HOME="state")
    assert found.state == tmp_path / ".local/state/pinata"


@pytest.mark.parametrize(
    ("environment", "complaint"),
    [
        ({}, "neither XDG_STATE_HOME nor HOME is set"),
        ({"XDG_STATE_HOME": "{root}/state"}, "inside the checkout"),
        ({"XDG_STATE_HOME": "{link}/state"}, "inside the checkout"),
        ({"XDG_STATE_HOME": "/state\udcff"}, "not UTF-8"),
    ],
    ids=["none", "inside", "inside-by-a-link", "not-text"],
)
def test_state_folder_that_cannot_do_is_refused(
    tmp_path: Path, environment: dict[str, str], complaint: str
) -> None:
    root = tmp_path / "repo"
    root.mkdir()
    (tmp_path / "link").symlink_to(root)
    given = {
        name: value.format(root=root, link=tmp_path / "link") for name, value in environment.items()
    }
    with pytest.raises(UsageError, match=complaint):
        places(root, **given)
