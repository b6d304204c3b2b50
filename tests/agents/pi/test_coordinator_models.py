"""Agents of a session's host whose model only the session's Pi can reach."""

import shlex
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.support.coordinators import RESULT, Desk, open_desk
from tests.support.live import agents_left
from tests.support.model_server import ModelRequest
from tests.support.pi_agents import KEY, PROVIDER
from tests.support.projects import Project, Turn, reports, says, scout, statuses

pytestmark = [pytest.mark.slow, pytest.mark.unmeasured]

MODEL = {"provider": PROVIDER, "id": "m1", "thinking": "off"}
NAMES = [f"look{number}" for number in range(8)]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, {"a.txt": "one\n"})


@pytest.fixture
async def desk(project: Project) -> AsyncIterator[Desk]:
    """Have a desk whose bridge is overheard, and whose host has no way to a model by itself."""
    folder = project.folder
    (folder / "empty").mkdir()
    program = folder / "overheard"
    pinata = f"{shlex.quote(sys.executable)} -m pinata"
    program.write_text(
        "#!/bin/sh\n"
        f"export PI_CODING_AGENT_DIR={shlex.quote(str(folder / 'empty'))}\n"
        f'tee -a {folder}/said | {pinata} "$@" | tee -a {folder}/heard\n'
    )
    program.chmod(0o755)
    async with open_desk(project) as opened:
        opened.env["PINATA_PROGRAM"] = str(program)
        yield opened
    assert agents_left(project) == []


def job(*tasks: dict[str, Any], **fields: object) -> dict[str, Any]:
    return {"tasks": list(tasks), "config": {"models": {"default": MODEL}}, **fields}


def is_result(record: dict[str, Any]) -> bool:
    told: dict[str, Any] = record.get("message", {})
    return record["type"] == "message_end" and told.get("customType") == RESULT


def files_of(project: Project) -> Iterator[Path]:
    """Return every file that was written, apart from what Pi itself keeps."""
    for path in project.folder.rglob("*"):
        if path.is_file() and not path.is_relative_to(project.folder / "agent"):
            yield path


async def test_scout_thinks_with_a_model_that_only_the_session_can_reach(desk: Desk) -> None:
    def inspire(request: ModelRequest) -> Turn:
        assert request.headers["authorization"] == f"Bearer {KEY}"
        is_first = "toolCallId" not in str(request.body) and "tool_call_id" not in str(request.body)
        return says("read", path="a.txt") if is_first else reports("it says one")

    desk.mind.inspired = inspire
    async with desk.pi() as pi:
        # No model is named: the session's own is taken.
        desk.mind.will_say(says("pinata_run", tasks=[scout("look")]))
        await pi.prompt("Have a look.")
        (answer,) = pi.tool_results("pinata_run")
        assert statuses(answer) == {"look": "succeeded"}, answer
        (task,) = answer["tasks"]
        assert task["usage"]["costUsd"] is not None
    said, heard = ((desk.project.folder / name).read_bytes() for name in ("said", "heard"))
    assert b'"type":"pieces"' in said
    assert b'"type":"stream"' in heard
    written = {path: path.read_bytes() for path in files_of(desk.project)}
    assert {path.name for path in written} >= {
        "said",
        "heard",
        "host.log",
        "events.jsonl",
        "run.json",
    }
    assert [path for path, data in written.items() if KEY.encode() in data] == []


async def test_one_of_eight_streams_stalls_and_is_given_up_at_its_provider(desk: Desk) -> None:
    others_ended = trio.Event()

    def inspire(request: ModelRequest) -> Turn:
        brief = request.first_text
        if f"look at {NAMES[0]}" in brief:
            return {"text": "wait", "hang": True}
        if "look at last" in brief:
            others_ended.set()
        return reports("it is so")

    desk.mind.inspired = inspire
    tasks = [*map(scout, NAMES), scout("last", after=NAMES[1:])]
    async with desk.pi() as pi:
        desk.mind.will_say(says("pinata_run", **job(*tasks, background=True)))
        await pi.prompt("Have many looks.")
        run = pi.tool_results("pinata_run")[0]["run"]
        await others_ended.wait()
        assert desk.server.disconnects == 0
        desk.mind.will_say(says("pinata_cancel", run=run))
        await pi.prompt("Enough.")
        await desk.server.wait_disconnected()
        # The end of the run comes by itself, and Pi works on it.
        since = pi.records.index(await pi.until(is_result))
        await pi.settled(since)
        desk.mind.will_say(says("pinata_status", run=run))
        await pi.prompt("How was it?")
        found = statuses(pi.tool_results("pinata_status")[-1])
    assert found[NAMES[0]] == "cancelled"
    assert {found[name] for name in NAMES[1:]} == {"succeeded"}


async def test_scout_whose_pi_is_killed_goes_on_with_the_next_one(desk: Desk) -> None:
    was_asked = trio.Event()

    def inspire(_: ModelRequest) -> Turn:
        if was_asked.is_set():
            return reports("it is so")
        was_asked.set()
        return {"text": "wait", "hang": True}

    desk.mind.inspired = inspire
    async with desk.pi() as pi:
        desk.mind.will_say(says("pinata_run", **job(scout("look"), background=True)))
        await pi.prompt("Have a look.")
        await was_asked.wait()
        await pi.kill()
    await desk.server.wait_disconnected()
    async with desk.pi() as pi:
        told = await pi.until(is_result)
        assert "succeeded" in told["message"]["content"]
        await pi.settled()
