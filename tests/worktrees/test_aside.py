"""A folder that was set aside goes back; one that is condemned is told from it by its name."""

from pathlib import Path

import pytest

from worktrees.aside import aside_of, condemn, put_back, set_aside, standing_at
from worktrees.registration import remaining_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A worktree's folder with a file in it."""
    made = tmp_path / "fix"
    made.mkdir()
    (made / "file").write_text("content")
    return made


def test_folder_that_was_set_aside_stands_there_until_it_is_put_back(path: Path) -> None:
    assert standing_at(path) == path
    set_aside(path)
    assert standing_at(path) == aside_of(path)
    assert not path.exists()
    assert put_back(path)
    assert (path / "file").read_text() == "content"
    assert put_back(path)


def test_folder_does_not_go_back_over_something_else(path: Path) -> None:
    set_aside(path)
    path.write_text("mine")
    assert standing_at(path) == path
    assert not put_back(path)
    assert path.read_text() == "mine"
    assert (aside_of(path) / "file").exists()


def test_folder_is_not_set_aside_over_another_one(path: Path) -> None:
    aside_of(path).mkdir()
    (aside_of(path) / "mine").touch()
    with pytest.raises(OSError, match="not empty"):
        set_aside(path)
    assert (path / "file").exists()


def test_condemned_folder_takes_the_place_of_an_earlier_one(path: Path) -> None:
    remaining_of(path).mkdir()
    (remaining_of(path) / "earlier").touch()
    set_aside(path)
    condemn(path)
    assert [each.name for each in remaining_of(path).iterdir()] == ["file"]
    assert put_back(path)
    assert not path.exists()
