"""The herd of a session's host, in this process: a played session, and agents that follow scripts.

async with open_herd_host(Project.create(tmp_path)) as host:
    host.define("scout", {"text": "All is well."})
    answer = await host.call("agent_delegate", definition="scout", task="Look.")
"""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import trio

from agents.herdsman.identity import SessionId
from agents.herdsman.runtime import RESULT
from engine.records.host_owner import EnteredFrame, EntryField, HistoryFrame, IdleFrame
from pinata import app
from pinata.tools.registry import Answer
from pinata.work.context import Context
from pinata.work.herd import Herd, open_herd
from pinata.work.herd_place import Place
from pinata.work.herd_ways import open_ways
from pinata.work.host_models import HostModels
from pinata.work.host_owner import OwnerFrame
from pinata.work.host_seat import Seat
from pinata.work.observer import Silence
from tests.support.herd_desk import Turn, define_in
from tests.support.projects import Project

PATIENCE_S = 60


class PlayedSession(Seat):
    """A session's program that holds in memory what enters it, and is idle.

    Attributes:
        entered: kind, details and text of all that entered it.
    """

    def __init__(self, cwd: Path, hear: Callable[[OwnerFrame], None]) -> None:
        super().__init__(1, cwd, trust=None)
        self.entered: list[tuple[str, Mapping[str, Any], str | None]] = []
        self._hear = hear
        self._news = trio.Event()

    async def send(self, frame: Mapping[str, Any]) -> bool:
        await trio.lowlevel.checkpoint()
        number = frame["request"]
        if frame["type"] == "read_history":
            kept = [
                EntryField.model_validate({"kind": kind, "details": details, "onBranch": True})
                for kind, details, _ in self.entered
                if kind in frame["kinds"]
            ]
            self._hear(HistoryFrame(type="history", request=number, entries=kept))
        else:
            self.entered.append((frame["kind"], frame["details"], frame["text"]))
            self._news.set()
            self._news = trio.Event()
            self._hear(EnteredFrame(type="entered", request=number, entered=True))
        return True

    def texts(self, kind: str = RESULT) -> list[str]:
        """Return what it was told, in order."""
        return [text for of, _, text in self.entered if of == kind and text is not None]

    async def until_told(self, count: int = 1, kind: str = RESULT) -> list[str]:
        """Return what it was told, once that is so many."""
        while len(self.texts(kind)) < count:
            await self._news.wait()
        return self.texts(kind)


@dataclass
class Screen:
    """What a session shows of its agents.

    Attributes:
        states: by label.
        left: why those that are over are still here, by label.
    """

    states: Mapping[str, str] | None = None
    left: Mapping[str, str] = field(default_factory=dict)
    _news: trio.Event = field(default_factory=trio.Event)

    def show(self, agents: Sequence[Mapping[str, Any]]) -> None:
        self.states = {one["agent"]: one["state"] for one in agents}
        self.left = {one["agent"]: why for one in agents if (why := one.get("cleanup_error"))}
        self._news.set()
        self._news = trio.Event()

    async def until(self, expected: Mapping[str, str]) -> None:
        """Return once it shows these agents."""
        while self.states != expected:
            await self._news.wait()

    async def until_left(self, expected: Mapping[str, str]) -> None:
        """Return once it shows why these are still here."""
        while self.left != expected:
            await self._news.wait()


@dataclass
class HerdHost:
    """A herd, and whoever calls it."""

    project: Project
    context: Context
    session: SessionId
    herd: Herd
    screen: Screen

    @property
    def agent_dir(self) -> Path:
        found = self.context.agent_dir
        assert found is not None
        return found

    @property
    def place(self) -> Place:
        return Place(self.project.repo.root, None)

    @property
    def mailboxes(self) -> list[Path]:
        """The mailboxes that there are."""
        folder = self.agent_dir / "pinata" / "runtime" / "mailboxes-v4"
        return sorted(folder.iterdir()) if folder.exists() else []

    @property
    def sessions(self) -> list[Path]:
        """The session files that there are."""
        return sorted((self.agent_dir / "sessions").rglob("*.jsonl"))

    def define(self, name: str, *turns: Turn, **more: object) -> None:
        """Write a definition whose agents follow a script."""
        define_in(self.agent_dir, name, {"*": list(turns)}, **more)

    async def call(self, tool: str, **arguments: object) -> Answer:
        """Return what a tool answers the session, or an agent of it."""
        herd = await self.herd.owner(self.session, self.place)
        context = replace(self.context, cwd=self.project.repo.root, herd=herd)
        return await app.call_for_session(context, tool, arguments)

    async def delegate(self, definition: str, label: str, task: str = "Begin.") -> Answer:
        """Start an agent."""
        answer = await self.call("agent_delegate", definition=definition, label=label, task=task)
        assert answer["ok"], answer
        return answer

    async def agents(self) -> dict[str, str]:
        """Return the states of the agents that the session sees, by label."""
        listed = await self.call("agent_list")
        return {one["agent"]: one["state"] for one in listed["agents"]}

    async def until(self, expected: Mapping[str, str]) -> None:
        """Return once these are the agents that the session sees."""
        while await self.agents() != expected:
            await trio.lowlevel.checkpoint()

    async def until_clear(self) -> None:
        """Return once no mailbox is left."""
        while self.mailboxes:
            await trio.lowlevel.checkpoint()

    @contextmanager
    def attached(self, *, idle: bool = True) -> Iterator[PlayedSession]:
        """Have the session's program there inside the block."""
        seat = PlayedSession(self.project.repo.root, self.herd.told)
        with self.herd.attached(seat, owns_agents=True):
            self.herd.told(IdleFrame(type="idle", idle=idle))
            yield seat


@asynccontextmanager
async def open_herd_host(
    project: Project, session: str = "lead", *, patience_s: float = PATIENCE_S, **environment: str
) -> AsyncIterator[HerdHost]:
    """Have the host of a session inside the block; its agents end with it."""
    screen = Screen()
    env = project.env | environment
    context = app.build_context(env, Path("/"), Silence(), traffic=app.new_traffic())
    name = SessionId(session)
    tools = partial(app.tools_of_agents, context)
    # What never happens fails the test that waits for it.
    with trio.fail_after(patience_s):
        async with (
            open_ways(context) as find_way,
            open_herd(
                context, name, HostModels(), tools=tools, find_way=find_way, show=screen.show
            ) as herd,
        ):
            yield HerdHost(project, context, name, herd, screen)
