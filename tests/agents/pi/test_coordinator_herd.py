"""A person's real Pi whose model delegates to managed agents."""

import os
import shlex
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agents.herdsman.runtime import QUESTION, RESULT
from tests.support.coordinators import Desk, open_desk
from tests.support.herd_desk import (
    call,
    define,
    define_pi,
    mailboxes,
    messages,
    told,
    wait_labels,
)
from tests.support.live import agents_left
from tests.support.projects import Project, says

pytestmark = pytest.mark.slow


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    project = Project.create(tmp_path, {"a.txt": "one\n"})
    async with open_desk(project) as opened:
        yield opened
    assert agents_left(project) == []


async def test_agents_ask_hand_on_and_go_on_and_nothing_is_lost_when_the_session_is(
    desk: Desk,
) -> None:
    asks = {"calls": [{"tool": "ask_owner", "arguments": {"question": "One or two?"}}]}
    define(desk, "reader", {"*": [{"text": "It says one."}]})
    define(desk, "asker", {"*": [asks, {"text": "Two it is."}]})
    async with desk.pi() as pi:
        for definition, label in (("reader", "eye"), ("asker", "mouth")):
            answer = await call(
                desk, pi, "agent_delegate", definition=definition, label=label, task="Begin."
            )
            assert answer["ok"], answer
        await pi.until(told(RESULT))
        await pi.until(told(QUESTION))
        # Whatever takes the session away takes nothing of this with it.
        await pi.kill()
    async with desk.pi() as pi:
        answer = await call(desk, pi, "agent_reply", agent="mouth", message="Two.")
        assert answer["ok"], answer
        await pi.until(told(RESULT))
        since = len(pi.records)
        handed = await call(
            desk,
            pi,
            "agent_delegate",
            definition="reader",
            task="Mind it.",
            files=["result:mouth#1"],
        )
        assert handed["ok"], handed
        await pi.until(told(RESULT), since)
        await wait_labels(desk, pi)
        (first,) = (one for one in messages(desk) if one["details"]["agentLabel"] == "eye")
        session = first["details"]["piSessionId"]
        since = len(pi.records)
        again = await call(desk, pi, "agent_continue", session=session, task="Once more.")
        assert again["ok"], again
        assert again["agent"] == "eye"
        assert again["session_id"] == session
        await pi.until(told(RESULT), since)
        await wait_labels(desk, pi)
    found = [one["details"]["agentLabel"] for one in messages(desk)]
    assert sorted(found) == ["eye", "eye", "mouth", "reader"]
    assert len(messages(desk, QUESTION)) == 1
    assert mailboxes(desk) == []


async def test_closing_an_agent_closes_those_that_it_started_before_it(desk: Desk) -> None:
    delegates = {
        "tool": "agent_delegate",
        "arguments": {"definition": "idler", "label": "child", "task": "Wait."},
    }
    define(desk, "idler", {"*": [{"hang": True}]})
    define(desk, "boss", {"*": [{"calls": [delegates]}, {"text": "I wait."}]}, agents=["idler"])
    async with desk.pi() as pi:
        answer = await call(
            desk, pi, "agent_delegate", definition="boss", label="boss", task="Begin."
        )
        assert answer["ok"], answer
        await wait_labels(desk, pi, "boss", "child")
        closed = await call(desk, pi, "agent_close", agent="boss")
        assert closed["ok"], closed
        await wait_labels(desk, pi)
    assert messages(desk) == []
    assert mailboxes(desk) == []


async def test_agent_that_is_a_pi_reads_asks_and_is_brought_to_its_end(desk: Desk) -> None:
    define_pi(desk, "reader")
    turns = iter(
        (
            says("read", path="a.txt"),
            says("ask_owner", question="Is that all?"),
            {"text": "That is all: one."},
        )
    )
    desk.mind.inspired = lambda _: next(turns)
    async with desk.pi() as pi:
        answer = await call(
            desk, pi, "agent_delegate", definition="reader", label="eye", task="Read a.txt."
        )
        assert answer["ok"], answer
        assert answer["pane_id"].startswith("process-")
        await pi.until(told(QUESTION))
        seen = await call(desk, pi, "agent_inspect", agent="eye")
        assert "read" in seen
        answer = await call(desk, pi, "agent_reply", agent="eye", message="It is.")
        assert answer["ok"], answer
        await pi.until(told(RESULT))
        await wait_labels(desk, pi)
    (message,) = messages(desk)
    assert "That is all: one." in message["content"]
    assert mailboxes(desk) == []


async def test_reload_loses_neither_results_nor_questions_and_tells_none_twice(desk: Desk) -> None:
    reloader = desk.project.folder / "reloader.ts"
    reloader.write_text(
        'export default (pi) => pi.registerCommand("again", '
        "{ handler: async (_, ctx) => { await ctx.reload(); } });\n"
    )
    go = desk.project.folder / "go"
    waits = _waiting_for(go)
    asks = {"tool": "ask_owner", "arguments": {"question": "One or two?"}}
    define(desk, "reader", {"*": [{"calls": [waits]}, {"text": "It says one."}]})
    define(desk, "asker", {"*": [{"calls": [waits]}, {"calls": [asks]}, {"text": "Two it is."}]})
    async with desk.pi("-e", str(reloader)) as pi:
        for definition, label in (("reader", "eye"), ("asker", "mouth")):
            answer = await call(
                desk, pi, "agent_delegate", definition=definition, label=label, task="Begin."
            )
            assert answer["ok"], answer
        since = len(pi.records)
        # What comes while the session has no extension waits for the next one.
        go.touch()
        await pi.ask("prompt", message="/again")
        await pi.until(told(RESULT), since)
        await pi.until(told(QUESTION), since)
        await pi.ask("prompt", message="/again")
        since = len(pi.records)
        answer = await call(desk, pi, "agent_reply", agent="mouth", message="Two.")
        assert answer["ok"], answer
        await pi.until(told(RESULT), since)
        await wait_labels(desk, pi)
        await pi.ask("prompt", message="/again")
        await wait_labels(desk, pi)
    assert sorted(one["details"]["agentLabel"] for one in messages(desk)) == ["eye", "mouth"]
    assert len(messages(desk, QUESTION)) == 1
    assert mailboxes(desk) == []


async def test_what_a_session_has_not_read_is_left_to_the_pi_that_takes_it_over(desk: Desk) -> None:
    ends, rests = desk.project.folder / "ends", desk.project.folder / "rests"
    define(desk, "reader", {"*": [{"calls": [_waiting_for(ends)]}, {"text": "It says one."}]})
    async with desk.pi() as first:
        answer = await call(
            desk, first, "agent_delegate", definition="reader", label="eye", task="Begin."
        )
        assert answer["ok"], answer
        await first.settled()
        desk.mind.will_say({"calls": [_waiting_for(rests)]})
        since = len(first.records)
        await first.ask("prompt", message="Wait.")
        await first.until(lambda record: record["type"] == "tool_execution_start", since)
        ends.touch()
        await first.until(lambda record: "settling" in str(record.get("widgetLines")), since)
        # A Pi takes seconds to start, and by then the first one was sent the result long ago.
        async with desk.pi() as second:
            await second.until(told(RESULT))
            await wait_labels(desk, second)
            rests.touch()
            await first.settled(since)
            await first.prompt("And now?")
    assert [one["details"]["agentLabel"] for one in messages(desk)] == ["eye"]


async def test_result_is_delivered_only_once_the_file_of_the_session_holds_it(desk: Desk) -> None:
    ends = desk.project.folder / "ends"
    define(desk, "reader", {"*": [{"calls": [_waiting_for(ends)]}, {"text": "It says one."}]})
    async with desk.pi() as pi:
        answer = await call(
            desk, pi, "agent_delegate", definition="reader", label="eye", task="Begin."
        )
        assert answer["ok"], answer
        await pi.settled()
        (file,) = (desk.agent_dir / "sessions").rglob(f"*_{desk.session}.jsonl")
        # So does a full disk leave a line; the next one is written behind it once there is room.
        with file.open("a") as broken:
            broken.write('{"type":"message","mess')
        since = len(pi.records)
        ends.touch()
        await pi.until(told(RESULT), since)
        await pi.settled(since)
        await pi.kill()
    async with desk.pi() as pi:
        await pi.until(told(RESULT))
        await wait_labels(desk, pi)
    begins = f'{{"type":"custom_message","customType":"{RESULT}"'
    assert sum(line.startswith(begins) for line in file.read_text().splitlines()) == 1


async def test_session_whose_way_to_its_host_breaks_twice_in_a_row_finds_back(desk: Desk) -> None:
    fails, ends = desk.project.folder / "fails", desk.project.folder / "ends"
    program = desk.project.folder / "program"
    program.write_text(
        "#!/bin/sh\n"
        f"test -e {fails} && rm {fails} && exit 1\n"
        f'exec {shlex.quote(sys.executable)} -m pinata "$@"\n'
    )
    program.chmod(0o755)
    desk.env["PINATA_PROGRAM"] = str(program)
    define(desk, "reader", {"*": [{"calls": [_waiting_for(ends)]}, {"text": "It says one."}]})
    async with desk.pi() as pi:
        answer = await call(
            desk, pi, "agent_delegate", definition="reader", label="eye", task="Begin."
        )
        assert answer["ok"], answer
        fails.touch()
        for bridge in desk.bridges():
            os.kill(bridge, signal.SIGKILL)
        ends.touch()
        await pi.until(told(RESULT))
        await wait_labels(desk, pi)
        assert not fails.exists()
        # Where no try leads back, the person hears what else does.
        program.write_text("#!/bin/sh\necho broken >&2\nexit 1\n")
        for bridge in desk.bridges():
            os.kill(bridge, signal.SIGKILL)
        last = await pi.until(lambda record: record.get("notifyType") == "error")
        assert "(broken); /reload tries again" in last["message"]
    # The host has a minute for the session to come back.
    for host in desk.hosts():
        os.kill(host, signal.SIGTERM)


def _waiting_for(path: Path) -> dict[str, object]:
    """Return a call that ends once something stands at `path`."""
    command = f"until test -e {path}; do sleep 0.1; done"
    return {"tool": "bash", "arguments": {"command": command}}
