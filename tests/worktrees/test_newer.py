import os
from pathlib import Path

from worktrees.newer import newer_than

LATER_NS = 1 << 62


def test_what_changed_later_is_found_wherever_it_lies(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    assert newer_than(tmp_path, [b""], 0) == [b"", b"deep", b"deep/file", b"link"]
    assert newer_than(tmp_path, [b""], 0, folders=False) == [b"deep/file", b"link"]
    assert newer_than(tmp_path, [b"deep/", b"gone"], 0) == [b"deep", b"deep/file"]
    assert newer_than(tmp_path, [b""], LATER_NS) == []


def test_file_with_a_name_elsewhere_goes_by_when_it_was_written(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    (place / "file").touch()
    os.utime(place / "file", (1, 1))
    assert newer_than(place, [b"file"], 1_000_000_000) == [b"file"]
    os.link(place / "file", place / "again")
    assert newer_than(place, [b"again", b"file"], 1_000_000_000) == [b"again", b"file"]
    os.link(place / "file", tmp_path / "elsewhere")
    assert newer_than(place, [b"again", b"file"], 1_000_000_000) == []
