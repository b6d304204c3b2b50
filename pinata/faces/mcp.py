"""The face for MCP clients: the tools over stdin and stdout, in a process that owns their runs."""

import json
import signal
import sys
from argparse import Namespace
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, get_args

import trio
from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.session import ServerSession
from mcp.server.stdio import stdio_server
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

import pinata
from engine.core.errors import PinataError
from engine.system.nursery import open_flat_nursery
from pinata import app
from pinata.faces import output
from pinata.faces.call_progress import CallProgress
from pinata.faces.command import Command, here
from pinata.faces.wire import open_wire
from pinata.tools.registry import Answer
from pinata.work.owned_run import OwnedRun
from pinata.work.runtime import Runtime, open_runtime

LEAVING: Final = "the MCP client has left"
_INSTRUCTIONS = (
    "Pinata delegates work on this repository to a graph of coding agents and lets nothing into "
    "the checkout that was not reviewed. pinata_agents lists who can work. pinata_run starts a "
    "run: scouts look, builders change owned files in worktrees, reviewers judge one builder "
    "each. Start long runs with `background: true` and follow them with pinata_status. When every "
    "task has succeeded, pinata_changes shows the approved change and pinata_integrate applies "
    "it; pinata_rollback takes it back. Runs that are going on are cancelled when you disconnect."
)
_LAST_WORDS_S = 1.0
_LEVELS: Final[Sequence[types.LoggingLevel]] = get_args(types.LoggingLevel)
Request = ServerRequestContext[Any, Any]


class McpFace:
    """Answers one client."""

    def __init__(
        self, environment: Mapping[str, str], cwd: Path, *, project_trust: bool | None = None
    ) -> None:
        """Begin without a client.

        Args:
            environment: of all calls.
            cwd: where all calls stand.
            project_trust: see `pinata.work.context.Context`.
        """
        self._environment = environment
        self._cwd = cwd
        self._project_trust = project_trust
        self._session: ServerSession | None = None
        self._level: types.LoggingLevel = "info"

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Server[Any]]:
        """Have a server inside the block; on leaving it, the runs that it owns are cancelled."""
        runtime = open_runtime(app.new_traffic(), leaving=LEAVING, announce=self.announce)
        async with runtime as owner:
            yield self._server(owner)

    def _server(self, runtime: Runtime) -> Server[Any]:
        server: Server[Any] = Server(
            "pinata",
            version=pinata.__version__,
            instructions=_INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=partial(self._call_tool, runtime),
        )
        server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, self._set_level)
        return server

    async def _list_tools(
        self, _: Request, __: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        described = await trio.to_thread.run_sync(app.describe_tools)
        return types.ListToolsResult(tools=[_tool(each) for each in described])

    async def _set_level(
        self, _: Request, params: types.SetLevelRequestParams
    ) -> types.EmptyResult:
        await trio.lowlevel.checkpoint()
        self._level = params.level
        return types.EmptyResult()

    async def _call_tool(
        self, runtime: Runtime, request: Request, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        self._session = request.session
        progress = CallProgress(params.name)
        context = app.build_context(
            self._environment, self._cwd, progress, project_trust=self._project_trust
        ).within(runtime)
        answer: Answer = {}
        try:
            async with open_flat_nursery() as nursery:
                nursery.start_soon(progress.report, partial(_tell, request.session))
                answer = await app.call_tool(context, params.name, params.arguments or {})
                nursery.cancel_scope.cancel()
        except PinataError as error:
            return _result({"error": str(error)}, is_error=True)
        return _result(answer)

    async def announce(self, ended: OwnedRun) -> None:
        """Tell the client that a run in the background has ended.

        The newest revision of the protocol has no message for that: its clients ask. Whoever gave a
        call up asked for the end of its run.
        """
        if not ended.is_in_background:
            return
        session = self._session
        assert session is not None  # it has made the call that started the run
        level, data = await _end(ended)
        if session.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return
        if _LEVELS.index(level) < _LEVELS.index(self._level):
            return
        params = types.LoggingMessageNotificationParams(level=level, logger="pinata", data=data)
        await session.send_notification(types.LoggingMessageNotification(params=params))


async def _tell(session: ServerSession, number: int, message: str) -> None:
    await session.report_progress(number, None, message)


async def _end(ended: OwnedRun) -> tuple[types.LoggingLevel, Answer]:
    """Return what is said of a run that has ended, and how loudly."""
    run = ended.id
    try:
        status = (await ended.wait_answer())["status"]
    except PinataError as error:
        return "error", {"run": run, "error": str(error)}
    level: types.LoggingLevel = "info" if status == "succeeded" else "warning"
    message = f"run {run} has ended: {status}; pinata_status tells more"
    return level, {"run": run, "status": status, "message": message}


def _tool(described: Answer) -> types.Tool:
    return types.Tool(
        name=described["name"],
        description=described["description"],
        input_schema=described["parameters"],
        annotations=types.ToolAnnotations(read_only_hint=not described["changesState"]),
    )


def _result(answer: Answer, *, is_error: bool = False) -> types.CallToolResult:
    text = json.dumps(answer, ensure_ascii=False)
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], is_error=is_error
    )


async def _mcp(given: Namespace, environment: Mapping[str, str]) -> int:
    app.refuse_agents(environment)
    face = McpFace(environment, here(), project_trust=True if given.trust_project else None)
    if sys.stdin is not None and sys.stdin.isatty():
        output.note("pinata: this is for an MCP client to start, and speaks its protocol")
    app.adopt_orphans()
    talk = trio.CancelScope()
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        async with open_flat_nursery() as nursery:
            nursery.start_soon(_watch_signals, signals, talk, nursery.cancel_scope)
            async with open_wire() as (reader, writer), face.opened() as server:
                # The library's own reader is a thread that waits for the client, come what may.
                stdin: Any = reader
                stdout: Any = writer
                # Inside of what owns the runs: however a conversation ends, they end in order.
                with talk:
                    async with stdio_server(stdin, stdout) as (read, write):
                        await server.run(read, write, server.create_initialization_options())
                        # What was said is still sent, unless nobody listens.
                        talk.deadline = trio.current_time() + _LAST_WORDS_S
            nursery.cancel_scope.cancel()
    return 0


async def _watch_signals(
    signals: AsyncIterator[int], talk: trio.CancelScope, everything: trio.CancelScope
) -> None:
    """End the conversation at a signal, and the process when a person interrupts it once more.

    A client that ends the process sends the same signal as whoever shuts the machine down, and then
    kills: there is nothing to be gained by ending its runs in disorder before that.
    """
    async for number in signals:
        if talk.cancel_called and number == signal.SIGINT:
            everything.cancel()
            return
        talk.cancel()


COMMANDS: Mapping[str, Command] = {"mcp": _mcp}
