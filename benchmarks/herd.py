"""What a look at many managed agents costs the session that owns them."""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import trio

from agents.herdsman.identity import SessionId
from benchmarks.figure import Figure, seconds
from pinata import app
from pinata.work.context import Context
from pinata.work.herd import open_herd
from pinata.work.herd_place import Place
from pinata.work.herd_ways import open_ways
from pinata.work.host_models import HostModels
from pinata.work.observer import Silence

_AGENTS = 50
_ROUNDS = 21
_LIMIT_MS = 100
_SCRIPT = {"*": [{"hang": True}]}


async def figures() -> list[Figure]:
    with TemporaryDirectory() as scratch:
        async with _owner(Path(scratch)) as context:
            task = {"definition": "idler", "task": "Wait."}
            for number in range(_AGENTS):
                given = task | {"label": f"idler-{number}"}
                answer = await app.call_for_session(context, "agent_delegate", given)
                assert answer["ok"], answer

            async def look() -> None:
                answer = await app.call_for_session(context, "agent_list", {})
                assert len(answer["agents"]) == _AGENTS

            # What the last start has set off is over soon.
            await trio.sleep(1)
            taken_ms = median([await seconds(look) * 1000 for _ in range(_ROUNDS)])
    return [Figure(f"agent_list of {_AGENTS} agents at work", taken_ms, "ms", _LIMIT_MS)]


@asynccontextmanager
async def _owner(folder: Path) -> AsyncIterator[Context]:
    """Have a session with a definition `idler` inside the block, as the one that calls."""
    agents, script = folder / ".pi" / "agent" / "agents", folder / "script.json"
    agents.mkdir(parents=True)
    script.write_text(json.dumps(_SCRIPT))
    front = f"description: Waits.\nbackend: in-process\nmodel: scripted/{script}\n"
    (agents / "idler.md").write_text(f"---\n{front}---\nYou wait.\n")
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    context = app.build_context(environment, folder, Silence(), traffic=app.new_traffic())
    tools = partial(app.tools_of_agents, context)
    async with (
        open_ways(context) as ways,
        open_herd(
            context, SessionId("benchmark"), HostModels(), tools=tools, find_way=ways
        ) as herd,
    ):
        yield replace(context, herd=await herd.controller(Place(folder, None)))
