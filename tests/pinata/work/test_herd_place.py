"""How the herd names the places that its callers stand in."""

from dataclasses import replace
from pathlib import Path

import pytest

from engine.core.errors import ExternalError
from pinata import app
from pinata.work.context import Context
from pinata.work.herd_place import Place, find_ground
from pinata.work.observer import Silence
from tests.support.projects import Project

pytestmark = pytest.mark.slow


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, {"a.txt": "one\n"})


def context_of(project: Project, **environment: str) -> Context:
    return app.build_context(project.env | environment, project.repo.root, Silence())


async def workspace(context: Context, cwd: Path) -> Path:
    return (await find_ground(context, Place(cwd, None))).workspace


async def test_workspace_is_the_top_of_the_repository(project: Project) -> None:
    below = project.repo.root / "below"
    below.mkdir()
    assert await workspace(context_of(project), below) == project.repo.root.resolve()


async def test_folder_outside_of_git_is_a_workspace_of_its_own(
    project: Project, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    assert await workspace(context_of(project), outside) == outside.resolve()


async def test_repository_that_is_not_supported_leaves_a_folder_its_own_name(
    project: Project,
) -> None:
    config = project.repo.root / ".git" / "config"
    config.write_text(
        "[core]\n\trepositoryformatversion = 1\n\tbare = false\n"
        "[extensions]\n\tobjectformat = sha256\n"
    )
    below = project.repo.root / "below"
    below.mkdir()
    assert await workspace(context_of(project), below) == below.resolve()


async def test_git_that_cannot_be_asked_chooses_no_other_workspace(project: Project) -> None:
    context = context_of(project)
    missing = replace(context, environment={**context.environment, "PATH": "/nonexistent"})
    with pytest.raises(ExternalError, match="cannot tell which repository"):
        await workspace(missing, project.repo.root)
    assert await workspace(context, project.repo.root) == project.repo.root.resolve()


async def test_git_that_fails_chooses_no_other_workspace(project: Project) -> None:
    (project.repo.root / ".git" / "config").write_text("[core\n")
    with pytest.raises(ExternalError, match="bad config"):
        await workspace(context_of(project), project.repo.root)
