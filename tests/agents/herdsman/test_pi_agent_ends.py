"""Managed agents whose Pi is a program of a test: how it is called, and how it ends."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio

from agents.herdsman import pi_agent
from agents.herdsman.pi_agent import PiManagedSpec, open_pi
from agents.models.endpoint import Secret
from engine.core.errors import ExternalError
from tests.support.herd_pi import PiHerd
from tests.support.herd_stage import PlayedAttendant, open_gate
from tests.support.pi_children import PLANTED, program
from tests.support.programs import is_running

pytestmark = pytest.mark.slow
LONG_S = 30
READY = """
def ready():
    id_ = hear()["id"]
    state = {"model": {"provider": "loop", "id": "m1"}}
    state |= {"sessionId": "11111111-1111-4111-8111-111111111111", "sessionFile": SESSION}
    say("response", id=id_, success=True, data=state)
"""
TELL = """
prompt = open(sys.argv[-1], encoding="utf-8").read()
told = {"argv": sys.argv[1:], "prompt": prompt, "managed": json.loads(os.environ["PINATA_MANAGED"])}
told["permission"] = os.environ.get("PINATA_AGENT_PERMISSION")
json.dump(told, open("told.json", "w"))
ready()
sys.stdin.read()
"""


async def spec_of(folder: Path, text: str) -> PiManagedSpec:
    """Return an agent whose Pi is a Python program."""
    herd = PiHerd(folder)
    head = f"SESSION = {str(herd.session_file)!r}\n{READY}\n"
    herd.pi = program(folder, head + text)
    return replace(await herd.spec(), secrets=(Secret(PLANTED),))


async def told(folder: Path, spec: PiManagedSpec) -> dict[str, Any]:
    """Return how an agent was called."""
    async with open_pi(spec, PlayedAttendant(tools=(open_gate().tool,))):
        found: dict[str, Any] = json.loads(await trio.Path(folder / "told.json").read_text())
    return found


async def test_a_managed_agent_is_called_with_what_it_is_and_leaves_no_prompt(
    tmp_path: Path,
) -> None:
    spec = await spec_of(tmp_path, TELL)
    found = await told(tmp_path, replace(spec, instructions=("Mind the gap.\n",)))
    argv = found["argv"]
    assert argv[:2] == ["--mode", "rpc"]
    assert argv[argv.index("--session") + 1] == str(spec.session_file)
    assert argv[argv.index("--model") + 1 :][:3] == ["loop/m1", "--thinking", "off"]
    # Nobody else's extension sees a marker before ours does.
    assert argv[argv.index("-e") + 1].endswith("/agents/pi/managed")
    assert argv[-2] == "--append-system-prompt"
    assert found["prompt"].startswith("You look around.\n")
    assert found["prompt"].endswith("Mind the gap.\n")
    assert not await trio.Path(argv[-1]).exists()
    (tool,) = found["managed"].pop("tools")
    assert (tool["name"], tool["parameters"]["type"]) == ("gate", "object")
    assert found["managed"] == {
        "guarded": ["find", "grep", "ls", "read"],
        "shells": ["bash", "powershell"],
        "shellTimeoutS": 600,
    }
    assert found["permission"] is None


async def test_a_permission_is_passed_on_unread_and_without_keys_nothing_is_guarded(
    tmp_path: Path,
) -> None:
    spec = await spec_of(tmp_path, TELL)
    definition = replace(spec.definition, permission=[{"x": 1}, None], system_prompt_mode="replace")
    found = await told(tmp_path, replace(spec, definition=definition, secret_files=()))
    assert json.loads(found["permission"]) == [{"x": 1}, None]
    assert found["managed"]["guarded"] == []
    assert found["prompt"] == "You look around.\n"


async def test_a_child_that_dies_is_told_with_the_end_of_what_it_wrote_and_without_secrets(
    tmp_path: Path,
) -> None:
    text = f"""
    ready()
    print("starting", "x" * 200_000, file=sys.stderr)
    print("fatal: {PLANTED}", file=sys.stderr)
    os._exit(3)
    """
    async with open_pi(await spec_of(tmp_path, text_of(text)), PlayedAttendant()) as talk:
        with trio.fail_after(LONG_S):
            why = await talk.wait_ended()
        last = (await talk.recent_output())[-1]
    assert why.startswith("Pi ended by itself, with code 3; it last said: fatal: ")
    assert last.startswith("fatal: ")
    assert PLANTED not in why + last


async def test_a_child_that_only_closes_its_output_is_gone_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pi_agent, "_EXIT_S", 0.1)
    monkeypatch.setattr(pi_agent, "_GRACE_S", 0.1)
    text = """
    ready()
    os.close(0)
    os.close(1)
    open("pid", "w").write(str(os.getpid()))
    time.sleep(600)
    """
    async with open_pi(await spec_of(tmp_path, text_of(text)), PlayedAttendant()) as talk:
        with trio.fail_after(LONG_S):
            assert await talk.wait_ended() == "Pi has closed its output"
        pid = int(await trio.Path(tmp_path / "pid").read_text())
        assert is_running(pid)
    assert not is_running(pid)


async def test_a_child_that_does_not_heed_the_end_of_its_stdin_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pi_agent, "_GRACE_S", 0.1)
    text = """
    ready()
    time.sleep(600)
    """
    with trio.fail_after(LONG_S):
        async with open_pi(await spec_of(tmp_path, text_of(text)), PlayedAttendant()) as talk:
            child = talk.child
    assert not is_running(child.pid)


async def test_what_a_provider_repeats_of_a_secret_is_struck_out_of_what_was_saved(
    tmp_path: Path,
) -> None:
    text = f"""
    ready()
    with open(SESSION, "a") as file:
        file.write(json.dumps({{"type": "message", "id": "1", "said": "{PLANTED}"}}) + "\\n")
    os._exit(0)
    """
    spec = await spec_of(tmp_path, text_of(text))
    async with open_pi(spec, PlayedAttendant()) as talk:
        await talk.wait_ended()
    saved = await trio.Path(spec.session_file).read_text()
    assert '"said": ' in saved
    assert PLANTED not in saved


async def test_a_prompt_that_cannot_be_kept_is_told_as_such(tmp_path: Path) -> None:
    spec = await spec_of(tmp_path, TELL)
    with pytest.raises(ExternalError, match="cannot keep the system prompt"):
        async with open_pi(
            replace(spec, env={**spec.env, "TMPDIR": "/nowhere"}), PlayedAttendant()
        ):
            raise AssertionError("it began")


def text_of(indented: str) -> str:
    """Return a program without the indentation of the test that it is in."""
    return "\n".join(line[4:] for line in indented.splitlines())
