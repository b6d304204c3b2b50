"""What every test about worktrees begins with."""

from pathlib import Path

import pytest

from tests.support.repos import RepoBuilder


@pytest.fixture
def repo(tmp_path: Path) -> RepoBuilder:
    """A checkout with a few committed files."""
    files: dict[str, str | bytes] = {
        "kept.txt": "kept\n",
        "edited.txt": "before\n",
        "deleted.txt": "going\n",
        "folder/inner.txt": "inner\n",
        ".gitignore": "*.ignored\n",
    }
    return RepoBuilder.create(tmp_path / "checkout", files)


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """A folder for private indexes."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder
