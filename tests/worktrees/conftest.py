"""What every test about worktrees begins with."""

from pathlib import Path

import pytest

from tests.support.movers import forget_renameat2
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


@pytest.fixture(params=["in one step", "in steps"])
def manner(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How files change places: as the kernel can, and as without its help."""
    chosen: str = request.param
    if chosen == "in steps":
        forget_renameat2(monkeypatch)
    return chosen


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """A folder for private indexes."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder
