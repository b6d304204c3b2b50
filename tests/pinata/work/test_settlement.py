"""The end of a call that carried a run: whoever is owed the result, and did not call, is woken."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from engine.records.host import hello
from engine.system.sockets import open_listener
from pinata import app
from pinata.work.frames import FrameReader
from pinata.work.host_record import published
from pinata.work.session import Session
from tests.support.hosted import KEY, hosted
from tests.support.projects import Project, reports, scout

LOOK = [scout("look")]
SAYS = {"look": [reports("it is so")]}
TOKEN = "0" * 64
NUDGE = hello(TOKEN, "nudge", KEY)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, {"a.txt": "a\n"})


@asynccontextmanager
async def served(project: Project) -> AsyncIterator[list[dict[str, Any] | None]]:
    """Listen where the session's host does inside the block, and note what it is told."""
    heard: list[dict[str, Any] | None] = []

    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            heard.append(await FrameReader(stream, 1 << 16).receive())

    session = Session.of(KEY, project.env)
    async with (
        open_listener(session.folder, "host.sock", project.folder) as listener,
        published(session, listener.path, TOKEN),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(trio.serve_listeners, serve, [listener.listener])
        yield heard
        nursery.cancel_scope.cancel()


async def resume(project: Project, run: str) -> None:
    context = app.build_context(project.env, project.repo.root, project.recorder)
    await app.resume_run(context, run)


async def test_session_that_started_a_run_is_woken_when_somebody_else_brings_it_to_its_end(
    project: Project,
) -> None:
    async with hosted(project):
        run = (await project.run(LOOK, SAYS))["run"]
    async with served(project) as heard:
        await resume(project, run)
        assert heard == [NUDGE]


async def test_nobody_is_woken_by_its_own_call_or_for_a_run_of_no_session(
    project: Project,
) -> None:
    async with hosted(project), served(project) as heard:
        await project.run(LOOK, SAYS)
        project.session = None
        await project.run(LOOK, SAYS)
        assert heard == []


async def test_session_whose_host_is_gone_holds_nobody_up(project: Project) -> None:
    async with hosted(project):
        run = (await project.run(LOOK, SAYS))["run"]
    await resume(project, run)
