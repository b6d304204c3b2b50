"""A session whose host is this process: its calls, and what it is told of its runs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import trio

from engine.core.ids import TaskId
from engine.core.outcome import Status
from engine.records.event import Logged
from pinata import app
from pinata.work.context import Context
from pinata.work.delivery import Deliveries
from pinata.work.observer import Silence
from pinata.work.owned_run import OwnedRun
from pinata.work.session import Session
from tests.support.projects import Project

KEY = "a session"


class Watch(Silence):
    """Looks at a run in the background whenever something happens in it."""

    def __init__(self, owned: OwnedRun) -> None:
        self._owned = owned
        self._news = trio.Event()
        owned._observer = self

    def happened(self, logged: Logged) -> None:
        self._news.set()

    async def wait_running(self, task: str) -> None:
        """Wait until an agent has the task."""
        while self._owned._status(TaskId(task)) is not Status.RUNNING:
            await self._news.wait()
            self._news = trio.Event()


class Ends:
    """Hears of runs that have ended."""

    def __init__(self) -> None:
        self.heard: list[OwnedRun] = []
        self._news = trio.Event()

    async def __call__(self, ended: OwnedRun) -> None:
        await trio.lowlevel.checkpoint()
        self.heard.append(ended)
        self._news.set()

    async def wait_next(self) -> None:
        """Wait until one more has ended than the last time."""
        await self._news.wait()
        self._news = trio.Event()


def host_context(project: Project) -> Context:
    """Return the surroundings of the host itself, which stands in no repository."""
    assert project.runtime is not None
    context = app.build_context(project.env, project.folder, project.recorder)
    return replace(context.within(project.runtime), session=project.session)


@asynccontextmanager
async def hosted(project: Project, key: str = KEY) -> AsyncIterator[tuple[Deliveries, Ends]]:
    """Let all calls inside the block be calls of a session, in its host."""
    project.session = Session.of(key, project.env)
    ends = Ends()
    try:
        async with project.owning(ends):
            yield Deliveries(host_context(project)), ends
    finally:
        project.session = None
