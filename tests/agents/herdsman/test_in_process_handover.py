"""A session goes from a Pi to this process and back, as if one had led it all the time."""

from dataclasses import replace
from pathlib import Path

import pytest

from agents.herdsman.identity import RequestId
from agents.herdsman.record import RequestKind
from agents.herdsman.runtime import IDENTITY, REQUEST, Conversation, Message, request_message
from tests.support.herd_in_process import SCOUT, InProcessStage
from tests.support.herd_pi import SESSION, PiHerd, scripted
from tests.support.herd_stage import PlayedAttendant


def task(text: str, number: int) -> Message:
    return request_message(RequestId(f"request-{number}"), RequestKind.TASK, text)


async def work(conversation: Conversation, attendant: PlayedAttendant, message: Message) -> None:
    await conversation.say(message, waits=True)
    await attendant.wait_rests(1)


@pytest.mark.slow
@pytest.mark.unmeasured
async def test_a_session_is_continued_by_whatever_runs_the_agent(tmp_path: Path) -> None:
    file = PiHerd(tmp_path).session_file
    ours = InProcessStage(lambda spec: replace(spec, session=SESSION, session_file=file))
    (tmp_path / "a.txt").write_text("hello\n")
    read = """\
        "*":
          - {thinking: hm, text: I look., calls: [{tool: read, arguments: {path: a.txt}}]}
          - {text: Seen.}
    """
    one, two, three = PlayedAttendant(), PlayedAttendant(), PlayedAttendant()
    herd = PiHerd(tmp_path, definition=SCOUT)
    async with herd.open(scripted(read), one) as pi:
        await work(pi.conversation, one, task("First.", 1))
    async with ours.open(tmp_path, read, two) as own:
        await work(own.conversation, two, task("Second.", 2))
        assert own.shown(0) == ("First.", "Second.")
        assert own.answered_calls(0) == ("hello\n",)
        entries = await own.conversation.entries()
    assert [entry.kind for entry in entries] == [IDENTITY, REQUEST, REQUEST]
    async with herd.open(scripted('"*": [{text: Thank you.}]'), three) as pi:
        await work(pi.conversation, three, task("Third.", 3))
        assert pi.shown(0) == ("First.", "Second.", "Third.")
        assert pi.answered_calls(0) == ("hello\n", "hello")
        assert pi.offered(0) == ["bash", "read"]
        # Nothing of the prompt that led it in between is left.
        assert pi.system(0).count("You look around.") == 1
    assert three.told == [("Thank you.", False)]
