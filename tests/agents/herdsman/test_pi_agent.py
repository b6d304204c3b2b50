"""Managed agents that are a real Pi: what is Pi's own about them, and how they begin and end."""

import json
import os
import signal
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import trio

from agents.herdsman import pi_talk
from agents.herdsman.errors import HerdError
from agents.herdsman.identity import RequestId
from agents.herdsman.marker import MARKER
from agents.herdsman.pi_agent import open_pi
from agents.herdsman.pi_talk import PiTalk
from agents.herdsman.record import RequestKind
from agents.herdsman.runtime import (
    GUIDANCE,
    REQUEST,
    RETIRED,
    CompactionReason,
    Lifecycle,
    Message,
    ToolReply,
    request_message,
)
from agents.pi_program import PiProgram
from engine.core.errors import ExternalError
from engine.system.identity import ProcessIdentity, is_alive
from engine.system.process import ProcessSpec, run
from tests.support.herd_pi import DEFINITION, PiHerd, PiScene, scripted
from tests.support.herd_stage import Gate, PlayedAttendant, open_gate
from tests.support.model_dialects import Refusal
from tests.support.model_server import Answer, ModelRequest
from tests.support.pi_agents import KEY
from tests.support.programs import is_running

pytestmark = [pytest.mark.slow, pytest.mark.unmeasured]
LONG_S = 60
UNKNOWN = "11111111-2222-4333-8444-aaaaaaaaaaaa"
DONE = """
    "*":
      - {text: Done.}
      - {text: Done again.}
      - {text: Done for good.}
"""


def task(text: str = "Begin.") -> Message:
    return request_message(RequestId("request-1"), RequestKind.TASK, text)


def steer(text: str) -> Message:
    return request_message(RequestId("request-2"), RequestKind.STEER, text)


def calls(*lines: str) -> str:
    """Return a script whose first turns make these calls, one each, and whose last one ends."""
    turns = "".join(f"      - calls: [{line}]\n" for line in lines)
    return f'    "*":\n{turns}      - {{text: Done.}}\n'


async def prompt(scene: PiScene, text: str, **options: str) -> dict[str, Any]:
    """Send a prompt as it stands, and return what Pi did with it."""
    reply = await scene.conversation._commands.send("prompt", message=text, **options)
    assert reply.fault is None
    return dict(reply.data.fields)


async def lines_of(scene: PiScene, role: str) -> list[dict[str, Any]]:
    """Return the messages of a role in the session's file."""
    text = await trio.Path(scene.conversation.session_file).read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    messages = [line["message"] for line in lines if line["type"] == "message"]
    return [message for message in messages if message["role"] == role]


async def test_text_that_begins_like_a_marker_and_is_none_is_swallowed(tmp_path: Path) -> None:
    attendant = PlayedAttendant()
    other = MARKER.replace("V4", "V3") + "x" * 36
    async with PiHerd(tmp_path).open(scripted(DONE), attendant) as scene:
        before = await scene.conversation.entries()
        for rest in ("", "short", f"{UNKNOWN} and more", "x" * 36, UNKNOWN.upper(), UNKNOWN):
            assert await prompt(scene, MARKER + rest) == {"disposition": "handled"}
        assert scene.conversation.lifecycle is Lifecycle.IDLE
        assert await scene.conversation.entries() == before
        # What another prefix begins is ordinary text.
        assert await prompt(scene, other) == {"disposition": "started"}
        await attendant.wait_rests(1)
        assert scene.shown(0) == (other,)


async def test_a_marker_that_comes_twice_is_traded_for_its_text_once(tmp_path: Path) -> None:
    gate = Gate()
    attendant = PlayedAttendant(tools=(gate.tool,))
    herd = PiHerd(tmp_path)
    async with herd.open(scripted(calls("{tool: gate}")), attendant) as scene:
        talk = scene.conversation
        parcel = talk._parcel("pinata-agent-request", {"request": "r"}, "Once.")
        await talk._put_in(parcel)
        for _ in range(2):
            assert await prompt(scene, MARKER + parcel.id) == {"disposition": "handled"}
        await gate.entered.wait()
        assert await prompt(scene, MARKER + parcel.id) == {"disposition": "handled"}
        gate.opened.set()
        await attendant.wait_rests(1)
        assert scene.shown(1) == ("Once.",)
    assert len(attendant.rests) == 1


async def test_a_shell_command_has_ten_minutes_unless_its_call_says_otherwise(
    tmp_path: Path,
) -> None:
    watch = tmp_path / "watch"
    watch.mkdir()
    (watch / "index.ts").write_text(
        textwrap.dedent("""\
        import { appendFileSync } from "node:fs";
        export default (pi) => {
          pi.on("tool_call", (event) => {
            appendFileSync("seen", JSON.stringify(event.input) + "\\n");
          });
        };
        """)
    )
    herd = PiHerd(tmp_path, replace(DEFINITION, extensions=(str(watch),)))
    attendant = PlayedAttendant()
    script = calls(
        "{tool: bash, arguments: {command: echo a}}",
        "{tool: bash, arguments: {command: echo b, timeout: 7}}",
        "{tool: read, arguments: {path: seen}}",
    )
    async with herd.open(scripted(script), attendant) as scene:
        await scene.conversation.say(task(), waits=True)
        await attendant.wait_rests(1)
    seen = [json.loads(line) for line in (tmp_path / "seen").read_text().splitlines()]
    assert seen == [
        {"command": "echo a", "timeout": 600},
        {"command": "echo b", "timeout": 7},
        {"path": "seen"},
    ]


async def test_what_json_does_not_know_is_saved_as_what_it_knows(tmp_path: Path) -> None:
    odd = {"files": ("a", "b"), "inner": MappingProxyType({"half": "\ud800", "\u2028": 1.0})}
    attendant = PlayedAttendant()
    async with PiHerd(tmp_path).open(scripted(DONE), attendant) as scene:
        await scene.conversation.append(RETIRED, odd)
        await scene.conversation.say(Message(REQUEST, "Half \udfff.", odd), waits=True)
        await attendant.wait_rests(1)
        saved = {"files": ["a", "b"], "inner": {"half": "\ufffd", "\u2028": 1}}
        entries = await scene.conversation.entries()
        assert [entry.details for entry in entries[1:]] == [saved, saved]
        assert scene.shown(0) == ("Half \ufffd.",)


async def test_an_interrupt_leaves_nothing_behind_of_what_was_queued(tmp_path: Path) -> None:
    gate = Gate()
    attendant = PlayedAttendant(tools=(gate.tool,))
    script = calls("{tool: gate}")
    async with PiHerd(tmp_path).open(scripted(script), attendant) as scene:
        await scene.conversation.say(task(), waits=True)
        await gate.entered.wait()
        # In Pi's own queue, as only somebody's extension could put it there, and in ours.
        assert await prompt(scene, "Queued in Pi.", streamingBehavior="steer") == {
            "disposition": "queued"
        }
        await scene.conversation.say(steer("Queued here."), waits=False)
        await scene.conversation.interrupt()
        await attendant.wait_rests(1)
        await scene.conversation.say(steer("Instead."), waits=True)
        await attendant.wait_rests(2)
        assert scene.shown(1) == ("Begin.", "Instead.")
        text = scene.conversation.session_file.read_text()
    assert "Queued" not in text
    assert [rest.was_aborted for rest in attendant.rests] == [True, False]
    # The tool was not left waiting either.
    assert gate.calls == [({}, True)]


async def test_a_run_that_somebody_else_aborts_leaves_no_message_lying(tmp_path: Path) -> None:
    gate = Gate()
    attendant = PlayedAttendant(tools=(gate.tool,))
    async with PiHerd(tmp_path).open(scripted(calls("{tool: gate}")), attendant) as scene:
        await scene.conversation.say(task(), waits=True)
        await gate.entered.wait()
        await scene.conversation.say(steer("Go on."), waits=False)
        await scene.conversation._commands.send("abort")
        await attendant.wait_rests(1)
        assert scene.shown(1) == ("Begin.", "Go on.")
    assert [rest.was_aborted for rest in attendant.rests] == [False]


async def test_a_pi_that_is_alive_and_silent_is_not_taken_for_answering(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pi_talk, "ANSWER_S", 0.3)
    attendant = PlayedAttendant()
    async with PiHerd(tmp_path).open(scripted(DONE), attendant) as scene:
        talk = scene.conversation
        assert await talk.is_answering()
        os.kill(talk.child.pid, signal.SIGSTOP)
        try:
            assert not await talk.is_answering()
        finally:
            os.kill(talk.child.pid, signal.SIGCONT)
        with trio.fail_after(LONG_S):
            while not await talk.is_answering():
                pass


async def test_a_pi_that_is_killed_is_told_with_how_it_ended(tmp_path: Path) -> None:
    gate = Gate()
    attendant = PlayedAttendant(tools=(gate.tool,))
    async with PiHerd(tmp_path).open(scripted(calls("{tool: gate}")), attendant) as scene:
        talk = scene.conversation
        await talk.say(task(), waits=True)
        await gate.entered.wait()
        os.kill(talk.child.pid, signal.SIGKILL)
        with trio.fail_after(LONG_S):
            assert await talk.wait_ended() == f"Pi ended by itself, with signal {signal.SIGKILL}"
        assert talk.lifecycle is Lifecycle.UNKNOWN
        with pytest.raises(ExternalError, match="Pi ended by itself"):
            await talk.say(steer("Still there?"), waits=False)
        # What it has saved until then can be read.
        assert [entry.kind for entry in await talk.entries()][1:] == ["pinata-agent-request"]


async def test_a_session_is_never_left_for_another_one(tmp_path: Path) -> None:
    attendant = PlayedAttendant()
    async with PiHerd(tmp_path).open(scripted(DONE), attendant) as scene:
        commands = scene.conversation._commands
        await scene.conversation.say(task(), waits=True)
        await attendant.wait_rests(1)
        for command, fields in (
            ("new_session", {}),
            ("switch_session", {"sessionPath": str(tmp_path / "other.jsonl")}),
            ("clone", {}),
        ):
            reply = await commands.send(command, **fields)
            assert reply.data.is_set("cancelled"), command
        assert await scene.conversation.is_answering()
        await scene.conversation.say(steer("Still here?"), waits=True)
        await attendant.wait_rests(2)


# More than is kept of a conversation that is shortened.
LONG = " more" * 100
SMALL = {"compaction": {"enabled": True, "reserveTokens": 1_000, "keepRecentTokens": 10}}
FULL = """
    "*":
      - {text: One., usage: {input: 100, output: 10}}
      - {text: Two., usage: {input: 9500, output: 10}}
      - {text: Three., usage: {input: 9600, output: 10}}
      - {text: Four., usage: {input: 200, output: 10}}
"""


class Retiring(PlayedAttendant):
    """Saves a mark before it answers, and has the agent told about it."""

    conversation: PiTalk

    async def may_compact(self, reason: CompactionReason) -> bool:
        if not self.asked:
            await self.conversation.append(RETIRED, {"session": self.conversation.session})
            await self.conversation.say(Message(GUIDANCE, "Hand over.", {}), waits=False)
        return await super().may_compact(reason)


async def test_a_threshold_is_asked_about_each_time_and_nothing_is_shortened(
    tmp_path: Path,
) -> None:
    attendant = Retiring(allows=False)
    herd = PiHerd(tmp_path, settings=SMALL, model={"contextWindow": 10_000})
    async with herd.open(scripted(FULL), attendant) as scene:
        attendant.conversation = scene.conversation
        for number in (1, 2):
            await scene.conversation.say(steer(f"Say {number}.{LONG}"), waits=True)
            await attendant.wait_rests(number)
        assert [text[:6] for text in scene.shown(2)] == ["Say 1.", "Say 2.", "Hand o"]
        assert compactions(herd) == 0
        kinds = [entry.kind for entry in await scene.conversation.entries()]
        assert kinds[-3:] == [REQUEST, RETIRED, GUIDANCE]
    assert set(attendant.asked) == {CompactionReason.THRESHOLD}
    assert len(attendant.asked) >= 2
    assert [text for text, _ in attendant.told] == ["One.", "Two.", "Three."]


async def test_a_conversation_is_shortened_where_that_is_allowed(tmp_path: Path) -> None:
    attendant = PlayedAttendant()
    herd = PiHerd(tmp_path, settings=SMALL, model={"contextWindow": 10_000})
    async with herd.open(scripted(FULL), attendant) as scene:
        for number in (1, 2):
            await scene.conversation.say(steer(f"Say {number}.{LONG}"), waits=True)
            await attendant.wait_rests(number)
        assert compactions(herd) == 1
        entries = await scene.conversation.entries()
    assert set(attendant.asked) == {CompactionReason.THRESHOLD}
    assert [entry.details.get("request") for entry in entries] == [None, "request-2", "request-2"]


async def test_a_conversation_is_shortened_by_hand_and_that_is_told_as_such(
    tmp_path: Path,
) -> None:
    attendant = PlayedAttendant()
    herd = PiHerd(tmp_path, settings=SMALL)
    async with herd.open(scripted(FULL), attendant) as scene:
        for number in (1, 2):
            await scene.conversation.say(steer(f"Say {number}.{LONG}"), waits=True)
            await attendant.wait_rests(number)
        reply = await scene.conversation._commands.send("compact")
        assert reply.fault is None
        assert compactions(herd) == 1
    assert attendant.asked == [CompactionReason.MANUAL]


def compactions(herd: PiHerd) -> int:
    """Return how often the conversation was shortened."""
    return herd.session_file.read_text().count('"type":"compaction"')


async def test_an_overflow_is_told_as_one_and_the_work_goes_on(tmp_path: Path) -> None:
    attendant = PlayedAttendant()
    herd = PiHerd(tmp_path, settings=SMALL, model={"contextWindow": 10_000})
    overflow = scripted("""
        "*":
          - {text: One., usage: {input: 100, output: 10}}
          - {text: Two., usage: {input: 100, output: 10}}
          - {text: Two., usage: {input: 100, output: 10}}
          - {text: Two., usage: {input: 100, output: 10}}
    """)
    seen: list[int] = []

    def choose(request: ModelRequest) -> Answer:
        seen.append(1)
        if len(seen) == 2:
            return Refusal(400, "prompt is too long: 20000 tokens > 10000 maximum")
        return overflow(request)

    async with herd.open(choose, attendant) as scene:
        for number in (1, 2):
            await scene.conversation.say(steer(f"Say {number}.{LONG}"), waits=True)
            await attendant.wait_rests(number)
    assert attendant.asked == [CompactionReason.OVERFLOW]
    assert attendant.told[-1] == ("Two.", False)
    assert attendant.rests[-1].fault is None


async def test_an_agent_is_what_its_definition_says(tmp_path: Path) -> None:
    definition = replace(
        DEFINITION,
        tools=("read", "grep"),
        exclude_tools=("grep",),
        system_prompt_mode="replace",
        permission={"bash": "ask"},
    )
    attendant = PlayedAttendant(tools=(open_gate().tool,))
    async with PiHerd(tmp_path, definition).open(scripted(DONE), attendant) as scene:
        await scene.conversation.say(task(), waits=True)
        await attendant.wait_rests(1)
        assert scene.offered(0) == ["gate", "read"]
        assert scene.system(0).startswith("You look around.")
        assert "pi" not in scene.system(0).split()
        environ = await trio.Path(f"/proc/{scene.conversation.child.pid}/environ").read_bytes()
        assert b'PINATA_AGENT_PERMISSION={"bash": "ask"}' in environ.split(b"\0")


async def test_an_agent_without_tools_has_those_of_the_herd(tmp_path: Path) -> None:
    attendant = PlayedAttendant(tools=(open_gate().tool,))
    herd = PiHerd(tmp_path, replace(DEFINITION, no_tools=True))
    async with herd.open(scripted(DONE), attendant) as scene:
        await scene.conversation.say(task(), waits=True)
        await attendant.wait_rests(1)
        assert scene.offered(0) == ["gate"]
        assert "somebody else started: your owner" in scene.system(0)


async def test_a_definition_that_would_take_the_herds_tools_away_starts_nothing(
    tmp_path: Path,
) -> None:
    herd = PiHerd(tmp_path, replace(DEFINITION, exclude_tools=("g*",)))
    attendant = PlayedAttendant(tools=(open_gate().tool,))
    spec = replace(await herd.spec(), pi=PiProgram(Path("/nowhere"), "1", Path("/no"), "1"))
    with pytest.raises(HerdError, match="takes gate from the agent"):
        spec.check(attendant.tools)
    with pytest.raises(HerdError, match="takes gate from the agent"):
        async with open_pi(spec, attendant):
            raise AssertionError("it began")


async def test_what_cannot_be_started_is_told_as_such(tmp_path: Path) -> None:
    herd = PiHerd(tmp_path)
    spec = replace(await herd.spec(), pi=PiProgram(Path("/nowhere"), "1", Path("/no/node"), "1"))
    with pytest.raises(ExternalError, match="/no/node"):
        async with open_pi(spec, PlayedAttendant()):
            raise AssertionError("it began")


async def test_a_pi_that_does_not_come_up_is_told_with_what_it_last_said(tmp_path: Path) -> None:
    spec = await PiHerd(tmp_path).spec()
    with pytest.raises(ExternalError, match=r'code 1; it last said: .*Model "loop/m1" not found'):
        async with open_pi(spec, PlayedAttendant()):
            raise AssertionError("it began")


async def test_no_key_is_read_shown_or_saved(tmp_path: Path) -> None:
    attendant = PlayedAttendant()
    keys = ".pi-agent/models.json"
    script = calls(
        f"{{tool: read, arguments: {{path: {keys}}}}}",
        "{tool: bash, arguments: {command: env}}",
    ).replace("Done.", f"The key is {KEY}.")
    herd = PiHerd(tmp_path)
    async with herd.open(scripted(script), attendant) as scene:
        await scene.conversation.say(task(), waits=True)
        await attendant.wait_rests(1)
        recent = "\n".join(await scene.conversation.recent_output())
        refused, shown = scene.answered_calls(2)
        assert "which no agent reads" in refused
        assert "PINATA_MANAGED" not in shown
    assert KEY not in recent
    assert all(KEY not in text for text, _ in attendant.told)
    assert KEY not in herd.session_file.read_text()


async def test_what_the_agent_started_ends_with_it(tmp_path: Path) -> None:
    attendant = PlayedAttendant()
    script = calls("{tool: bash, arguments: {command: 'echo $$ > pid; sleep 600'}}")
    async with PiHerd(tmp_path, mark="token/scout").open(scripted(script), attendant) as scene:
        await scene.conversation.say(task(), waits=True)
        pid = await written(tmp_path / "pid")
        child = scene.conversation.child
        assert is_running(pid)
    assert not is_running(pid)
    assert not is_alive(ProcessIdentity(child.pid, child.start_ticks, child.boot_id))


async def written(path: Path) -> int:
    """Return the number that somebody is about to write."""
    await until(lambda: path.exists() and bool(path.read_text().strip()))
    return int(await trio.Path(path).read_text())


async def until(is_so: Callable[[], bool]) -> None:
    """Return once something is so that nobody tells of."""
    with trio.fail_after(LONG_S):
        while not is_so():  # noqa: ASYNC110 - other programs bring it about
            await trio.sleep(0.01)


STUBBORN = """
import { renameSync, writeFileSync } from "node:fs";
export default (pi) => {
  const parameters = { type: "object", properties: {} };
  const execute = () => {
    writeFileSync("made", String(process.pid));
    renameSync("made", "pid");
    return new Promise(() => {});
  };
  pi.registerTool({ name: "stubborn", label: "s", description: "s", parameters, execute });
  pi.on("session_shutdown", () => new Promise(() => {}));
};
"""
HOST = """
import os, sys
from dataclasses import replace
from pathlib import Path
import trio
from tests.support.herd_pi import DEFINITION, PiHerd, scripted
from tests.support.herd_stage import PlayedAttendant
from tests.agents.herdsman.test_pi_agent import calls, task, until


async def main():
    folder = Path(sys.argv[1])
    definition = replace(DEFINITION, extensions=(str(folder / "stubborn.ts"),))
    script = calls(sys.argv[2])
    async with PiHerd(folder, definition).open(scripted(script), PlayedAttendant()) as scene:
        await scene.conversation.say(task(), waits=True)
        await until((folder / "pid").exists)
        (folder / "child").write_text(str(scene.conversation.child.pid))
        os.kill(os.getpid(), 9)

trio.run(main)
"""


@pytest.mark.parametrize(
    "call",
    [
        "{tool: bash, arguments: {command: 'echo $$ > made && mv made pid; sleep 600'}}",
        "{tool: stubborn}",
    ],
    ids=["a command", "an extension that heeds nothing"],
)
async def test_a_pi_whose_host_is_gone_ends_by_itself_whatever_its_tools_do(
    tmp_path: Path, call: str
) -> None:
    (tmp_path / "stubborn.ts").write_text(STUBBORN)
    root = Path(__file__).parents[3]
    env = {**os.environ, "PYTHONPATH": str(root)}
    ended = await run(ProcessSpec((sys.executable, "-c", HOST, str(tmp_path), call), root, env))
    assert ended.signal == signal.SIGKILL, ended.stderr.decode()
    pids = [int((tmp_path / name).read_text()) for name in ("child", "pid")]
    await until(lambda: not any(map(is_running, pids)))


async def test_a_tool_of_the_herd_that_fails_is_shown_as_an_error(tmp_path: Path) -> None:
    gate = open_gate(ToolReply("not now", is_error=True, details={"ok": False}))
    attendant = PlayedAttendant(tools=(gate.tool,))
    async with PiHerd(tmp_path).open(scripted(calls("{tool: gate}")), attendant) as scene:
        await scene.conversation.say(task(), waits=True)
        await attendant.wait_rests(1)
        (answer,) = await lines_of(scene, "toolResult")
    assert answer["isError"]
    assert answer["details"] == {"ok": False}


async def test_scripts_of_the_agents_do_not_reach_the_herds_tools(tmp_path: Path) -> None:
    gate = open_gate()
    attendant = PlayedAttendant(tools=(gate.tool,))
    herd = PiHerd(tmp_path, replace(DEFINITION, codemode=True))
    script = calls("{tool: codemode, arguments: {code: 'return await tools.gate({})'}}")
    async with herd.open(scripted(script), attendant) as scene:
        await scene.conversation.say(task(), waits=True)
        await attendant.wait_rests(1)
        assert "codemode" in scene.offered(0)
    assert gate.calls == []
