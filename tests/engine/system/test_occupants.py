import mmap
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.system.occupants import Occupant, find_occupants


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file in it, whose name needs care."""
    made = tmp_path / "with a\nline"
    made.mkdir()
    (made / "file").write_text("content")
    return made


@contextmanager
def sitting_in(folder: Path) -> Iterator[int]:
    """Have a program run in a folder, and give its number."""
    with subprocess.Popen(["cat"], cwd=folder, stdin=subprocess.PIPE) as program:
        yield program.pid
        assert program.stdin is not None
        program.stdin.close()


def test_folder_that_nobody_is_in_has_no_occupants(folder: Path) -> None:
    assert find_occupants(folder) == []
    assert find_occupants(folder / "missing") == []


def test_program_is_found_by_its_working_directory_also_after_a_renaming(folder: Path) -> None:
    with sitting_in(folder) as pid:
        moved = folder.rename(folder.with_name("moved"))
        assert find_occupants(moved) == [Occupant(pid, "cat")]
        assert find_occupants(folder) == []
        assert find_occupants(moved.with_name("move")) == []


def test_program_is_found_by_an_open_file(folder: Path) -> None:
    with (folder / "file").open():
        assert [each.pid for each in find_occupants(folder)] == [os.getpid()]
    assert find_occupants(folder) == []


def test_program_is_found_by_a_file_that_it_mapped(folder: Path) -> None:
    with (folder / "file").open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), 0)
    # The mapping keeps a descriptor of its own, so the last one is told by number.
    with mapped:
        assert [each.pid for each in find_occupants(folder)] == [os.getpid()]


def test_folder_may_be_named_by_a_link(folder: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(folder.parent)
    with sitting_in(folder) as pid:
        assert [each.pid for each in find_occupants(link / folder.name)] == [pid]
