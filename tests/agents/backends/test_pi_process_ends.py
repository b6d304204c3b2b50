"""Agents whose Pi is a program of a test: how it is called, and all the ways in which it ends."""

import json
import signal
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import trio

from agents.backends import pi_conversation, pi_process
from agents.loop import AgentLost, Submitted
from agents.pi_settings import PiSettings
from agents.roster import load_roster
from engine.core.errors import ExternalError
from tests.support.pi_children import PLANTED, Stage, program
from tests.support.programs import is_running

pytestmark = pytest.mark.slow
LONG_S = 30
SCOUT = load_roster().definitions["scout"]
TELL = """
begin()
prompt = open(sys.argv[-1], encoding="utf-8").read()
told = {"argv": sys.argv[1:], "prompt": prompt, "child": json.loads(os.environ["PINATA_CHILD"])}
json.dump(told, open("told.json", "w"))
submit()
say("agent_settled")
"""


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """A place for a child."""
    return Stage(tmp_path)


async def test_a_child_that_dies_silently_is_told_with_the_end_of_what_it_wrote(
    stage: Stage,
) -> None:
    text = """
    begin()
    print("starting", "x" * 200_000, file=sys.stderr)
    print("fatal: out of memory", file=sys.stderr)
    os._exit(3)
    """
    with trio.fail_after(LONG_S):
        outcome = await stage.run(program(stage.root, text))
    assert isinstance(outcome, AgentLost)
    assert outcome.message == (
        "Pi ended by itself, with code 3; it last said: fatal: out of memory"
    )


async def test_a_child_that_died_after_its_result_was_accepted_has_succeeded(stage: Stage) -> None:
    text = f"begin(); submit(); os.kill(os.getpid(), {signal.SIGKILL.value})"
    assert isinstance(await stage.run(program(stage.root, text)), Submitted)


async def test_neither_last_words_nor_what_was_saved_keep_the_users_key(stage: Stage) -> None:
    session = stage.root / "session.jsonl"
    for saved in (f"wrong key: {PLANTED}", "all is well"):
        session.write_text(saved)
        text = f"begin(); print({PLANTED!r}, file=sys.stderr); os._exit(3)"
        outcome = await stage.run(program(stage.root, text))
        assert isinstance(outcome, AgentLost)
        assert outcome.message.endswith("it last said: [key]")
        assert session.read_text() == saved.replace(PLANTED, "[key]")


async def test_a_flood_on_stderr_neither_stops_a_child_nor_is_it_kept(stage: Stage) -> None:
    text = """
    begin()
    for _ in range(1_000):
        sys.stderr.write("noise " * 10_000)
    submit()
    say("agent_settled")
    """
    with trio.fail_after(LONG_S):
        assert isinstance(await stage.run(program(stage.root, text)), Submitted)


async def test_a_line_of_a_hundred_megabytes_breaks_the_protocol(stage: Stage) -> None:
    text = "begin(); say('message_start', text='x' * 100_000_000)"
    with trio.fail_after(LONG_S):
        outcome = await stage.run(program(stage.root, text))
    assert isinstance(outcome, AgentLost)
    assert outcome.message == "Pi broke its protocol: it sent a line of more than 64 MiB"


async def test_a_child_that_will_not_leave_is_ended(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pi_conversation, "SETTLE_S", 0.1)
    monkeypatch.setattr(pi_process, "_GRACE_S", 0.1)
    pid = stage.root / "pid"
    text = f"""
    begin()
    open({str(pid)!r}, "w").write(str(os.getpid()))
    submit()
    time.sleep(600)
    """
    began = time.monotonic()
    assert isinstance(await stage.run(program(stage.root, text)), Submitted)
    assert time.monotonic() - began < LONG_S
    assert not is_running(int(pid.read_text()))


async def told(stage: Stage, settings: PiSettings | None = None) -> dict[str, object]:
    """Return what a child was told that starts with these settings."""
    definition = SCOUT if settings is None else replace(SCOUT, pi=settings)
    assert isinstance(await stage.run(program(stage.root, TELL), definition), Submitted)
    found: dict[str, object] = json.loads((stage.root / "told.json").read_text())
    return found


def pairs(argv: object) -> list[tuple[str, str]]:
    """Return each word of a command line with the one that follows it."""
    assert isinstance(argv, list)
    return list(pairwise(argv))


async def test_a_child_knows_its_task_and_nothing_of_its_user(stage: Stage) -> None:
    found = await told(stage)
    argv, prompt = found["argv"], found["prompt"]
    assert isinstance(argv, list)
    assert isinstance(prompt, str)
    assert {"--no-skills", "--no-extensions", "--no-context-files", "--no-approve"} <= set(argv)
    assert ("--model", "loop/m1") in pairs(argv)
    assert ("--thinking", "low") in pairs(argv)
    assert ("--tools", "read,grep,find,ls,submit_result") in pairs(argv)
    assert argv[-2] == "--append-system-prompt"
    assert prompt.startswith(SCOUT.persona)
    assert "`submit_result`" in prompt
    assert not Path(argv[-1]).parent.exists()


async def test_what_a_definition_says_to_pi_reaches_the_child(stage: Stage) -> None:
    settings = PiSettings(
        prompt="replace",
        excluded=("f*",),
        skills=("~/skills/law",),
        inherits_skills=True,
        extensions=("/opt/watch.ts", "builtin:tool_search"),
        reads_instructions=True,
    )
    stage.missing = frozenset({"grep"})
    found = await told(stage, settings)
    argv, prompt = found["argv"], found["prompt"]
    assert isinstance(argv, list)
    assert isinstance(prompt, str)
    assert not {"--no-skills", "--no-context-files"} & set(argv)
    assert ("--skill", "/home/robin/skills/law") in pairs(argv)
    assert [path for option, path in pairs(argv) if option == "-e"][:2] == [
        "/opt/watch.ts",
        "builtin:tool_search",
    ]
    assert ("--tools", "read,ls,submit_result") in pairs(argv)
    assert argv[-2] == "--system-prompt"
    assert "`grep`" not in prompt
    assert "`find`" not in prompt


async def test_a_prompt_that_is_too_long_for_a_command_line_arrives(stage: Stage) -> None:
    text = "\N{BLACK STAR}" * 64_000
    definition = replace(SCOUT, persona=f"{text}\n")
    assert isinstance(await stage.run(program(stage.root, TELL), definition), Submitted)
    found = json.loads((stage.root / "told.json").read_text())
    assert found["prompt"].startswith(text)


async def test_without_a_place_for_the_prompt_the_attempt_fails(stage: Stage) -> None:
    pi = program(stage.root, TELL)
    stage.temporary = stage.root / "gone"
    with pytest.raises(ExternalError, match="cannot keep the system prompt for Pi"):
        await stage.run(pi)
