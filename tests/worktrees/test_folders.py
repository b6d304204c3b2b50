import os
from pathlib import Path

import pytest

from worktrees.folders import Folders, ancestors, split_path


def test_a_path_is_split_into_its_folders() -> None:
    assert split_path(b"a/b/c") == (b"a/b", b"c")
    assert split_path(b"c") == (b"", b"c")
    assert ancestors(b"a/b/c") == (b"a", b"a/b")
    assert ancestors(b"c") == ()


def test_folders_are_found_in_any_order_with_few_descriptors(tmp_path: Path) -> None:
    for name in ("a/b", "a/c", "d"):
        tmp_path.joinpath(name).mkdir(parents=True)
    before = len(list(Path("/proc/self/fd").iterdir()))
    with Folders(tmp_path) as folders:
        for name in ("a/b", "a/c", "d", "a/b", "a", ""):
            found = os.fstat(folders.open(name.encode()))
            assert os.path.samestat(found, tmp_path.joinpath(name).stat())
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_links_and_files_are_never_folders(tmp_path: Path) -> None:
    tmp_path.joinpath("folder").mkdir()
    tmp_path.joinpath("folder/file").touch()
    tmp_path.joinpath("link").symlink_to("folder")
    with Folders(tmp_path) as folders:
        for name in (b"link", b"folder/file"):
            with pytest.raises(NotADirectoryError):
                folders.open(name)
        with pytest.raises(FileNotFoundError):
            folders.open(b"missing/below")
        assert folders.lstat(b"link/file") is None
        assert [folders.is_free(path) for path in (b"link", b"folder", b"missing")] == [
            False,
            True,
            True,
        ]
