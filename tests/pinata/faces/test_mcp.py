"""What the face for MCP clients answers, over streams in this process."""

import json
import logging
from argparse import Namespace
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio
from mcp import ClientSession, types
from mcp.shared.memory import create_client_server_memory_streams

from engine.core.errors import ConflictError
from pinata import app
from pinata.faces.mcp import COMMANDS, McpFace
from tests.support.projects import Project, reports, scout, statuses


@dataclass(slots=True)
class Client:
    """A client of a face, and what it heard."""

    session: ClientSession
    logs: list[types.LoggingMessageNotificationParams] = field(default_factory=list)
    logged: trio.Event = field(default_factory=trio.Event)

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return what its answer holds, an error included."""
        got = await self.session.call_tool(tool, arguments)
        (content,) = got.content
        assert isinstance(content, types.TextContent)
        answer: dict[str, Any] = json.loads(content.text)
        assert got.is_error == (set(answer) == {"error"})
        return answer


@asynccontextmanager
async def served(project: Project, *, modern: bool = False) -> AsyncIterator[Client]:
    """Be the client of a face inside the block, and leave."""
    face = McpFace(project.env, project.repo.root)
    client: Client | None = None

    async def on_log(params: types.LoggingMessageNotificationParams) -> None:
        assert client is not None
        client.logs.append(params)
        client.logged.set()

    talk = trio.CancelScope()

    async def serve(read: Any, write: Any) -> None:
        async with face.opened() as server:
            with talk:
                await server.run(read, write, server.create_initialization_options())

    # What never happens fails the test that waits for it.
    with trio.fail_after(60):
        async with (
            create_client_server_memory_streams() as (ours, theirs),
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(serve, *theirs)
            async with ClientSession(*ours, logging_callback=on_log) as session:
                client = Client(session)
                if modern:
                    await session.discover()
                else:
                    await session.initialize()
                yield client
            talk.cancel()


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, {"a.txt": "one\n"})


async def test_tools_are_those_of_the_registry(project: Project) -> None:
    async with served(project) as client:
        tools = (await client.session.list_tools()).tools
    described = await trio.to_thread.run_sync(app.describe_tools)
    assert [(tool.name, tool.description, tool.input_schema) for tool in tools] == [
        (tool["name"], tool["description"], tool["parameters"]) for tool in described
    ]
    reads = {tool.name for tool in tools if tool.annotations and tool.annotations.read_only_hint}
    assert reads == {"pinata_status", "pinata_agents"}


async def test_refusals_and_unknown_tools_are_errors_of_the_call(project: Project) -> None:
    async with served(project) as client:
        assert await client.call("pinata_status", run="ab", why="x") == {
            "error": 'unknown field "why"; the fields are run, task, offset, limit and detail'
        }
        assert "unknown tool 'pinata_fly'" in (await client.call("pinata_fly"))["error"]
        assert (await client.call("pinata_status"))["message"] == "there are no runs yet"


@pytest.mark.slow
async def test_run_is_waited_for_or_announced_as_loudly_as_it_ended(project: Project) -> None:
    async with served(project) as client:
        job = project.job([scout("look")], {"look": [reports()]})
        assert statuses(await client.call("pinata_run", **job)) == {"look": "succeeded"}
        assert client.logs == []
        failing = project.job([scout("look")], {"look": []}, background=True)
        run = (await client.call("pinata_run", **failing))["run"]
        await client.logged.wait()
        (log,) = client.logs
        assert (log.level, log.logger) == ("warning", "pinata")
        assert log.data == {
            "run": run,
            "status": "failed",
            "message": f"run {run} has ended: failed; pinata_status tells more",
        }


@pytest.mark.slow
async def test_level_that_a_client_sets_is_heeded(project: Project) -> None:
    async with served(project) as client:
        level = types.SetLevelRequestParams(level="error")
        await client.session.send_request(types.SetLevelRequest(params=level), types.EmptyResult)
        job = project.job([scout("look")], {"look": [reports()]}, background=True)
        run = (await client.call("pinata_run", **job))["run"]
        await ended(client, run)
    assert client.logs == []


async def ended(client: Client, run: str) -> None:
    """Wait until nothing of a run goes on."""
    while (await client.call("pinata_status", run=run))["status"] == "running":
        pass


@pytest.mark.slow
async def test_clients_of_the_newest_protocol_ask_for_the_end(project: Project) -> None:
    async with served(project, modern=True) as client:
        job = project.job([scout("look")], {"look": [reports()]}, background=True)
        run = (await client.call("pinata_run", **job))["run"]
        await ended(client, run)
    assert client.logs == []


@pytest.mark.slow
async def test_run_that_breaks_off_is_told_loudly_and_in_its_status(
    project: Project, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def break_off(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("pinata.work.conduct.run_graph", break_off)
    caplog.set_level(logging.CRITICAL)
    async with served(project) as client:
        job = project.job([scout("look")], {"look": [reports()]}, background=True)
        run = (await client.call("pinata_run", **job))["run"]
        await client.logged.wait()
        (log,) = client.logs
        sentence = f"run {run} broke off by a fault of pinata: ZeroDivisionError"
        assert (log.level, log.data) == ("error", {"run": run, "error": sentence})
        shown = await client.call("pinata_status")
        assert shown["notices"][-2:] == [
            (
                "no live process owns this run: `pinata rerun` starts again what was lost, "
                "`pinata resume` goes on without it"
            ),
            f"it broke off in this session: {sentence}",
        ]
        refused = await client.call("pinata_cancel", run=run)
        assert "so nothing of it is running: `pinata rerun" in refused["error"]


async def test_agents_are_refused() -> None:
    with pytest.raises(ConflictError, match="PINATA_AGENT=1"):
        await COMMANDS["mcp"](Namespace(trust_project=False), {"PINATA_AGENT": "1"})
