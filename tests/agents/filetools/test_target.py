from pathlib import Path

import pytest

from agents.filetools.resolve import Place
from agents.filetools.target import open_target
from agents.filetools.tool import ToolFaultError


def test_a_replacement_that_fails_leaves_no_temporary_file(tmp_path: Path) -> None:
    with open_target(Place(tmp_path, (b"a",)), "a", create_parents=False) as target:
        (tmp_path / "a").mkdir()
        with pytest.raises(IsADirectoryError):
            target.replace(b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_link_that_takes_the_place_of_an_opened_folder_leads_nowhere(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "src").mkdir(parents=True)
    outside.mkdir()
    with open_target(Place(root, (b"src", b"a")), "src/a", create_parents=True) as target:
        (root / "src").rename(root / "moved")
        (root / "src").symlink_to(outside)
        target.replace(b"x")
    assert list(outside.iterdir()) == []
    assert (root / "moved/a").read_bytes() == b"x"


def test_a_link_that_takes_the_place_of_the_root_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    with (
        pytest.raises(OSError, match="Not a directory"),
        open_target(Place(tmp_path / "link", (b"a",)), "a", create_parents=True),
    ):
        raise AssertionError


def test_missing_parents_are_made_only_when_asked(tmp_path: Path) -> None:
    place = Place(tmp_path, (b"x", b"y", b"a"))
    with (
        pytest.raises(ToolFaultError, match="there is no it"),
        open_target(place, "it", create_parents=False),
    ):
        raise AssertionError
    assert list(tmp_path.iterdir()) == []
    with open_target(place, "it", create_parents=True) as target:
        assert target.permissions is None
    assert (tmp_path / "x/y").is_dir()
