"""What people are told of managed agents is so: messages, states, reasons, limits and places."""

import json
import re
from pathlib import Path

import pytest
import trio
from pydantic import TypeAdapter

from agents.definition import Source
from agents.herdsman.activity import STALE_AFTER_MS
from agents.herdsman.attempt import START_S
from agents.herdsman.config import HerdConfig
from agents.herdsman.health import (
    ASK_AFTER_MS,
    PENDING_AFTER_MS,
    REPEAT_FIRST_MS,
    REPEAT_LEAST_MS,
    STALE_EVERY_MS,
    Reason,
)
from agents.herdsman.identity import SessionId
from agents.herdsman.policy import effective
from agents.herdsman.premises import Premises
from agents.herdsman.projection import AgentState
from agents.herdsman.record import Result
from agents.herdsman.record_form import RESULT_LIMIT_BYTES
from agents.herdsman.result_text import (
    TEXT_LIMIT_BYTES,
    TEXT_LIMIT_LINES,
    Delivery,
    result_message,
)
from agents.herdsman.submit import CONTROL_PATIENCE_S
from agents.roster import BUNDLED, Layer, load_roster
from engine.records.request import decode
from pinata.faces import cli
from pinata.faces.herd_board import herd_lines
from pinata.tools.herd import DelegateRequest
from tests.support.clock import FakeClock
from tests.support.herd_owners import Stage
from tests.support.herd_records import NOW_MS, TASK, state_of
from tests.support.reader import blocks, page, prose, rows, section, steps
from tests.support.reference import FOLDER, fits

PAGE = page("herd.md")
MINUTE_MS = 60_000


def block(name: str) -> str:
    """Return the block of the page that is called so."""
    (found,) = (each.text for each in blocks(PAGE) if name in each.words)
    return found


def test_example_of_a_call_can_be_made() -> None:
    asked = decode(TypeAdapter(DelegateRequest), json.loads(block("agent_delegate")))
    assert (asked.definition, asked.label) == ("scout", "reader")
    assert asked.definition in load_roster().herd


def test_rows_of_agents_are_what_a_session_shows() -> None:
    agent = {"agent": "reader", "agent_definition": "scout", "available_tools": []}
    assert herd_lines([{**agent, "state": "working"}]) == tuple(block("widget").splitlines())


def test_message_with_a_result_is_what_a_session_is_told() -> None:
    shown = block("result").rstrip("\n")
    (name,) = re.findall(r"session=(\S+)", shown)
    state = state_of("reader", definition="scout", session=SessionId(name))
    text = shown.rsplit("\n\n", 1)[1]
    result = Result(state.of, TASK, "completed", NOW_MS, text)
    assert result_message(Delivery(state, result, index=1)).text == shown


def test_states_and_reasons_are_those_that_there_are() -> None:
    states = [row[0].strip("`") for row in rows(section(PAGE, "States"))]
    assert sorted(states) == sorted(each.value for each in AgentState)
    reasons = [row[0].strip("`") for row in rows(section(PAGE, "When an agent needs you"))]
    assert reasons == [each.value for each in Reason]


def test_times_of_reminders_are_those_of_the_ladder() -> None:
    told = {row[0].strip("`"): row[1:] for row in rows(section(PAGE, "When an agent needs you"))}
    assert f"{ASK_AFTER_MS // MINUTE_MS} minutes" in told["ask"][0]
    assert f"{PENDING_AFTER_MS // MINUTE_MS} minutes" in told["handoff"][0]
    assert f"{STALE_AFTER_MS // MINUTE_MS} minutes" in told["stale"][0]
    assert told["stale"][1] == f"every {STALE_EVERY_MS // MINUTE_MS} minutes"
    assert told["result_error"][1].startswith(f"after {REPEAT_FIRST_MS // MINUTE_MS} minutes")
    assert (REPEAT_LEAST_MS, "down to every minute" in told["result_error"][1]) == (MINUTE_MS, True)


def test_limits_are_those_of_the_program() -> None:
    words = prose(PAGE)
    assert f"{HerdConfig().mailbox_payload_limit_bytes >> 10} KiB" in words
    assert f"record of more than {RESULT_LIMIT_BYTES >> 20} MiB" in words
    assert f"up to {TEXT_LIMIT_BYTES:,} bytes and {TEXT_LIMIT_LINES:,} lines" in words
    assert (CONTROL_PATIENCE_S, "within five seconds" in words) == (5, True)
    assert (START_S, "| starting an agent | 4 minutes |" in PAGE) == (240, True)


def test_data_lies_where_it_says(tmp_path: Path) -> None:
    premises = Premises(tmp_path / "pinata", FakeClock(), "a test")
    places = [
        premises.config_file,
        premises.results,
        premises.reservations,
        premises.mailboxes,
        premises.launches,
        premises.locks,
        premises.overflow,
    ]
    told = [row[0].strip("`").rstrip("/") for row in rows(section(PAGE, "Where things lie"))]
    assert told == [*(str(each.relative_to(tmp_path)) for each in places), "sessions"]


def test_example_of_a_definition_delegates(tmp_path: Path) -> None:
    (example,) = blocks(PAGE, "markdown")
    (tmp_path / "foreman.md").write_text(example.text)
    foreman = load_roster([BUNDLED, Layer(Source.USER, tmp_path)]).herd["foreman"]
    found = effective(foreman, launched_by_lead=True)
    assert found.is_delegating
    assert found.definition.agents == ("scout", "implementer")
    assert found.definition.tools == ("read", "grep", "find", "ls")
    assert not effective(foreman, launched_by_lead=False).is_delegating


@pytest.mark.slow
def test_command_shows_and_closes_what_a_dead_host_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    stage = Stage.at(tmp_path)
    premises = Premises(tmp_path / ".pi" / "agent" / "pinata", stage.clock, "a test")
    stage.premises = premises

    async def leave() -> None:
        await stage.add("reader", lifecycle=None, definition="scout")

    trio.run(leave)
    monkeypatch.chdir(stage.folder)
    (example,) = blocks((FOLDER / "commands" / "herd.md").read_text("utf-8"), "console")
    for step in steps(example):
        words = step.command.split()[1:]
        assert cli.main(words, {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}) == 0
        shown = [line for line in step.shown if line]
        real = capfd.readouterr().out.splitlines()
        assert len(shown) == len(real)
        assert all(map(fits, shown, real)), real
