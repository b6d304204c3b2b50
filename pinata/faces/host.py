"""The command that owns the runs of a session, beside the session's program and beyond it."""

import json
import logging.config
import os
import signal
import sys
from argparse import Namespace
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import trio

import pinata
from agents.herdsman.identity import SessionId
from agents.herdsman.tool_names import HERD_TOOL_NAMES
from agents.traffic import Traffic
from engine.core.errors import PinataError, UsageError
from engine.core.events import Trace
from engine.records.event import Logged
from engine.system.clock import SystemClock
from engine.system.nursery import open_flat_nursery
from pinata import app
from pinata.faces import output
from pinata.faces.call_progress import CallProgress
from pinata.faces.command import Command
from pinata.faces.session_board import SessionBoard
from pinata.faces.session_command import SessionCommands
from pinata.tools.registry import Answer
from pinata.work.context import Context
from pinata.work.delivery import Deliveries
from pinata.work.herd import Herd, open_herd
from pinata.work.herd_place import Place
from pinata.work.herd_ways import open_ways
from pinata.work.homecoming import come_home
from pinata.work.host import Setting, Work, open_host
from pinata.work.host_calls import COMMAND, Asked, Opened, Tell
from pinata.work.host_models import HostModels
from pinata.work.host_server import HostServer
from pinata.work.observer import Observer, OpenedRun, Silence
from pinata.work.runtime import Runtime
from pinata.work.session import Session

_NOWHERE: Final = Path("/")
_LOG_FORMAT = "%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"


class HostFace:
    """What the host of one session does for its clients.

    Attributes:
        board: shows them its runs.
    """

    def __init__(self, session: Session, environment: Mapping[str, str], traffic: Traffic) -> None:
        """Begin without runs.

        Args:
            session: whose.
            environment: of all calls.
            traffic: shared by all agents of this process.
        """
        self._session = session
        self._traffic = traffic
        self._environment = environment
        self._models = HostModels()
        self._herd: Herd | None = None
        self.board = SessionBoard(SystemClock())

    def works_with(self, runtime: Runtime) -> Work:
        """Return what is done with the runs of this process."""
        context = self._context(runtime, _NOWHERE, Silence(), trust=None)
        return Work(
            perform=partial(self._perform, runtime),
            owed=Deliveries(context),
            come_home=partial(come_home, context, self._session),
            models=self._models,
            text_of=app.text_for_model,
        )

    @asynccontextmanager
    async def open_herd(self) -> AsyncIterator[Herd]:
        """Have the session's agents inside the block."""
        context = app.build_context(self._environment, _NOWHERE, Silence(), traffic=self._traffic)
        context = replace(context, coordinator=self._models)
        tools = partial(app.tools_of_agents, context)
        session = SessionId(self._session.key)
        async with (
            open_ways(context) as find_way,
            open_herd(
                context,
                session,
                self._models,
                tools=tools,
                find_way=find_way,
                show=self.board.show_herd,
            ) as self._herd,
        ):
            yield self._herd

    def _context(
        self, runtime: Runtime, cwd: Path, observer: Observer, *, trust: bool | None
    ) -> Context:
        context = app.build_context(self._environment, cwd, observer, project_trust=trust)
        return replace(context.within(runtime), session=self._session, coordinator=self._models)

    async def _perform(self, runtime: Runtime, asked: Asked, opened: Opened, tell: Tell) -> Answer:
        if asked.tool == COMMAND:
            context = self._context(runtime, asked.cwd, Silence(), trust=asked.trust)
            typed = str(asked.arguments.get("text", ""))
            return {"text": await SessionCommands(runtime, self.board).carry_out(context, typed)}
        if asked.tool in HERD_TOOL_NAMES:
            return await self._manage(runtime, asked)
        if asked.owner is not None:
            raise UsageError(f"{asked.tool} is no tool of managed agents")
        progress = CallProgress(asked.tool)
        context = self._context(runtime, asked.cwd, _Both(progress, opened), trust=asked.trust)
        answer: Answer = {}
        async with open_flat_nursery() as nursery:
            nursery.start_soon(progress.report, tell)
            answer = await app.call_for_session(context, asked.tool, dict(asked.arguments))
            nursery.cancel_scope.cancel()
        return answer

    async def _manage(self, runtime: Runtime, asked: Asked) -> Answer:
        """Carry out a tool of managed agents."""
        assert self._herd is not None
        place = Place(asked.cwd, asked.trust)
        owner = SessionId(asked.owner or self._session.key)
        context = self._context(runtime, asked.cwd, Silence(), trust=asked.trust)
        context = replace(context, herd=await self._herd.owner(owner, place))
        return await app.call_for_session(context, asked.tool, dict(asked.arguments))


class _Both:
    """An observer that tells of the run that it is given, and of its progress."""

    def __init__(self, progress: CallProgress, opened: Opened) -> None:
        self._progress = progress
        self._opened = opened

    def run_opened(self, run: OpenedRun) -> None:
        """See `Observer`."""
        self._opened(run)
        self._progress.run_opened(run)

    def happened(self, logged: Logged) -> None:
        """See `Observer`."""
        self._progress.happened(logged)

    def noted(self, event: Trace) -> None:
        """See `Observer`."""
        self._progress.noted(event)


async def _host(given: Namespace, environment: Mapping[str, str]) -> int:
    app.refuse_agents(environment)
    session = Session.of(given.session, environment)
    _keep_log()
    # Whoever starts it in the background has it ignore this one, and its agents would, too.
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    try:
        app.adopt_orphans()
        tools: Sequence[Answer] = await trio.to_thread.run_sync(app.describe_all_tools)
        traffic = app.new_traffic()
        face = HostFace(session, environment, traffic)
        setting = Setting(
            environment, pinata.__version__, tools, traffic, face.board, face.open_herd
        )
        await _keep(face, session, setting)
    except PinataError as error:
        # Whoever started the host reads stdout and not its log; once it serves, nobody does.
        _say({"error": str(error)})
        raise
    return 0


async def _keep(face: HostFace, session: Session, setting: Setting) -> None:
    """Be the host until nothing is left to do, or somebody ends the process."""
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        async with open_flat_nursery() as nursery:
            async with open_host(session, setting, face.works_with) as server:
                nursery.start_soon(_watch_signals, signals, server)
                _say({"serving": session.key})
                os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
                await server.wait_left()
            nursery.cancel_scope.cancel()


async def _watch_signals(signals: AsyncIterator[int], server: HostServer) -> None:
    """End the host when it is told to; it has no terminal that could interrupt it."""
    async for number in signals:
        if number == signal.SIGTERM:
            server.stop()


def _say(what: Mapping[str, str]) -> None:
    output.write(json.dumps(what) + "\n")


def _keep_log() -> None:
    """Have what this program says of itself on stderr, which is its log."""
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {"line": {"format": _LOG_FORMAT}},
            "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
            "loggers": {"pinata": {"level": "INFO", "handlers": ["stderr"]}},
        }
    )


COMMANDS: Mapping[str, Command] = {"host": _host}
