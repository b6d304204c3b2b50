"""What people are told of the runs that they mean."""

from pathlib import Path

import pytest

from engine.core.errors import UsageError
from pinata import app
from pinata.work.lookup import look_up_conversation
from pinata.work.observer import Silence
from tests.support.projects import Project, reports, scout


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, {"a.txt": "one\n"})


async def test_attempt_that_there_never_was_is_refused_naming_those_there_are(
    project: Project,
) -> None:
    run = (await project.run([scout("look")], {"*": [reports()]}))["run"]
    context = app.build_context(project.env, project.repo.root, Silence())
    assert await look_up_conversation(context, run, "look", 1)
    with pytest.raises(UsageError) as caught:
        await look_up_conversation(context, run, "look", 2)
    assert str(caught.value) == "there is no attempt 2 at the task: it has attempt 1 alone"
