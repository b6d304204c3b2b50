"""Tests of `agents.herdsman.reads`."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents.herdsman import reads
from agents.herdsman.controller import Controller
from agents.herdsman.conversation_text import ConversationText
from agents.herdsman.errors import Category, HerdError
from agents.herdsman.identity import GenerationId, Identity
from agents.herdsman.look import Look
from agents.herdsman.reads import (
    RECENT_OUTPUT_LIMIT_BYTES,
    inspect,
    inspection_text,
    list_agents,
    transcript,
)
from agents.herdsman.record import State
from agents.herdsman.runtime import REQUEST, ForegroundProcess, Lifecycle
from engine.core.errors import ExternalError, UsageError
from tests.support.herd_owners import Stage
from tests.support.herd_records import session, uid


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage.at(tmp_path)


def save(state: State, *messages: tuple[str, str], of: str | None = None) -> Path:
    """Save a conversation in an agent's session file."""
    path = Path(state.session_file)
    header = {"type": "session", "version": 3, "id": of or state.session, "cwd": state.cwd}
    lines: list[dict[str, Any]] = [header]
    for number, (role, said) in enumerate(messages, 1):
        content = [{"type": "text", "text": said}]
        entry = {"type": "message", "message": {"role": role, "content": content}}
        if role == "request":
            entry = {"type": "custom_message", "customType": REQUEST, "content": said}
        lines.append(
            {**entry, "id": str(number), "parentId": str(number - 1) if number > 1 else None}
        )
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


async def inspection_refused(stage: Stage, agent: str = "scout") -> HerdError:
    with pytest.raises(HerdError) as caught:
        await inspect(stage.controller(), agent=agent)
    return caught.value


async def transcript_refused(stage: Stage, agent: str = "scout") -> HerdError:
    with pytest.raises(HerdError) as caught:
        await transcript(stage.controller(), agent=agent)
    return caught.value


async def listed(stage: Stage, agent: str = "scout") -> dict[str, Any]:
    answer = await list_agents(stage.controller())
    [record] = [each for each in answer["agents"] if each.get("agent") == agent]
    return dict(record)


async def replace_generation(stage: Stage, old: State) -> None:
    of = replace(old.of, generation=GenerationId(uid("another generation")))
    await stage.mailbox(old.of.label).write_state(replace(old, of=of))


async def test_agents_and_definitions_are_listed_together(stage: Stage) -> None:
    await stage.add("scout")
    answer = await list_agents(stage.controller())
    assert [each["agent"] for each in answer["agents"]] == ["scout"]
    assert answer["agent_definitions"] == []
    assert "definition_error" not in answer


async def test_definitions_that_cannot_be_read_hide_no_agent(stage: Stage) -> None:
    await stage.add("scout")
    stage.roster = UsageError("scout.md has a fault")
    answer = await list_agents(stage.controller())
    assert [each["agent"] for each in answer["agents"]] == ["scout"]
    assert answer["agent_definitions"] == []
    assert answer["definition_error"] == "scout.md has a fault"


async def test_a_look_that_fails_makes_nobody_lost(stage: Stage) -> None:
    await stage.add("scout")
    stage.runtime.fault = "no answer"
    with pytest.raises(HerdError) as caught:
        await list_agents(stage.controller())
    assert caught.value.trouble.category is Category.INTERNAL_FAILURE
    stage.runtime.fault = None
    assert (await listed(stage))["state"] == "working"


async def test_what_could_not_be_removed_is_listed_with_the_agent(stage: Stage) -> None:
    scout = await stage.add("scout", lifecycle=None)
    stage.endings.cleanup_errors[scout.of.generation] = "the disk is full"
    assert (await listed(stage))["cleanup_error"] == "the disk is full"


async def test_an_inspection_shows_the_last_lines_and_what_runs(stage: Stage) -> None:
    scout = await stage.add("scout")
    stage.runtime.output = tuple(f"line {number}" for number in range(81))
    stage.runtime.programs = [ForegroundProcess(7, "make", "make test")] * 9
    answer = await inspect(stage.controller(), agent="scout")
    assert answer == {
        "agent": "scout",
        "session_id": scout.session,
        "pane_id": scout.handle,
        "captured_at": stage.clock.now_ms(),
        "recent_output": "\n".join(f"line {number}" for number in range(1, 81)),
        "recent_output_truncated": False,
        "process": {"foreground": [{"pid": 7, "name": "make", "command": "make test"}] * 8},
    }


async def test_an_inspection_keeps_the_end_of_what_is_too_long(stage: Stage) -> None:
    await stage.add("scout")
    stage.runtime.output = ("ä" * (10 << 10),)
    answer = await inspect(stage.controller(), agent="scout")
    assert answer["recent_output"] == "ä" * (RECENT_OUTPUT_LIMIT_BYTES // 2)
    assert answer["recent_output_truncated"] is True


async def test_an_inspection_cuts_long_commands(stage: Stage) -> None:
    await stage.add("scout")
    stage.runtime.programs = [ForegroundProcess(7, "ä" * 200, "c" * 5000)]
    answer = await inspect(stage.controller(), agent="scout")
    assert answer["process"]["foreground"] == [{"pid": 7, "name": "ä" * 128, "command": "c" * 4096}]


async def test_an_inspection_does_without_programs_that_nobody_can_tell(stage: Stage) -> None:
    await stage.add("scout")
    stage.runtime.output = ("compiling",)
    stage.runtime.programs = ExternalError("no such file")
    answer = await inspect(stage.controller(), agent="scout")
    assert answer["recent_output"] == "compiling"
    assert "process" not in answer


async def test_an_inspection_of_a_session_that_was_replaced_shows_nothing(stage: Stage) -> None:
    scout = await stage.add("scout")

    async def replace_session(identity: Identity) -> None:
        agent = stage.runtime.agents[scout.handle]
        stage.runtime.agents[scout.handle] = replace(agent, session=session("another"))

    stage.runtime.while_capturing = replace_session
    assert (await inspection_refused(stage)).trouble.category is Category.TARGET_AMBIGUOUS


async def test_an_inspection_of_a_generation_that_was_replaced_shows_nothing(stage: Stage) -> None:
    scout = await stage.add("scout")
    stage.runtime.while_capturing = lambda _: replace_generation(stage, scout)
    assert (await inspection_refused(stage)).trouble.category is Category.TARGET_NOT_FOUND


async def test_a_lost_agent_is_not_inspected(stage: Stage) -> None:
    await stage.add("scout", lifecycle=None)
    assert "agent_inspect" not in (await listed(stage))["available_tools"]
    assert (await inspection_refused(stage)).trouble.category is Category.TARGET_NOT_FOUND


async def test_reads_are_for_the_direct_owner(stage: Stage) -> None:
    parent = await stage.add_parent("lead-dev", "worker")
    worker = await stage.mailbox("worker").read_state()
    assert worker is not None
    save(worker, ("user", "hidden"))
    save(parent, ("user", "shown"))
    for error in (
        await inspection_refused(stage, "worker"),
        await transcript_refused(stage, "worker"),
    ):
        assert error.trouble.category is Category.TARGET_NOT_FOUND


async def test_a_model_reads_who_runs_what_and_what_it_showed(stage: Stage) -> None:
    scout = await stage.add("scout")
    stage.runtime.output = ("one", "two")
    stage.runtime.programs = [ForegroundProcess(7, "make", "make test")]
    answer = await inspect(stage.controller(), agent="scout")
    assert inspection_text(answer) == (
        f"Agent: scout\nSession: {scout.session}\nPane: {scout.handle}\n"
        "Runs: make test\nRecent output:\none\ntwo"
    )
    cut = {**answer, "recent_output_truncated": True, "process": {"foreground": []}}
    assert inspection_text(cut).endswith("\nRecent output, without what came before:\none\ntwo")
    quiet = {**answer, "recent_output": ""}
    del quiet["process"]
    assert inspection_text(quiet).endswith(f"Pane: {scout.handle}\nRecent output: none")


async def test_a_transcript_tells_what_was_asked_and_said(stage: Stage) -> None:
    scout = await stage.add("scout")
    save(scout, ("request", "find it"), ("assistant", "found"))
    assert "agent_transcript" in (await listed(stage))["available_tools"]
    assert await transcript(stage.controller(), agent="scout") == {
        "agent": "scout",
        "session_id": scout.session,
        "transcript": "User:\nfind it\n\nAssistant:\nfound",
        "transcript_truncated": False,
    }


async def test_a_long_transcript_says_that_it_is_cut(stage: Stage) -> None:
    scout = await stage.add("scout")
    save(scout, ("user", "x" * (20 << 10)))
    answer = await transcript(stage.controller(), agent="scout")
    assert answer["transcript_truncated"] is True
    assert len(answer["transcript"]) == 16 << 10


async def test_the_file_of_another_session_is_not_told(stage: Stage) -> None:
    scout = await stage.add("scout")
    save(scout, ("user", "hidden"), of=session("another"))
    assert (await transcript_refused(stage)).trouble.category is Category.TARGET_NOT_FOUND


async def test_the_transcript_of_a_lost_agent_can_be_read(stage: Stage) -> None:
    scout = await stage.add("scout", lifecycle=None)
    save(scout, ("assistant", "as far as I came"))
    answer = await transcript(stage.controller(), agent="scout")
    assert answer["transcript"] == "Assistant:\nas far as I came"


@pytest.mark.parametrize("there", ["nothing", "an empty file", "a folder"])
async def test_a_session_that_is_not_saved_yet_is_waited_for_without_polling(
    stage: Stage, there: str
) -> None:
    await stage.add("scout")
    if there == "an empty file":
        stage.session_file("scout").touch()
    if there == "a folder":
        stage.session_file("scout").mkdir()
    assert "agent_transcript" not in (await listed(stage))["available_tools"]
    error = await transcript_refused(stage)
    assert error.trouble.category is Category.AGENT_BUSY
    assert "do not poll" in error.trouble.next_action


async def test_the_transcript_of_one_who_cannot_be_told_is_not_read(stage: Stage) -> None:
    scout = await stage.add("scout")
    save(scout, ("user", "hidden"))
    agent = stage.runtime.agents[scout.handle]
    stage.runtime.agents[scout.handle] = replace(agent, session=session("another"))
    assert (await transcript_refused(stage)).trouble.category is Category.TARGET_AMBIGUOUS


async def test_a_session_file_that_goes_away_is_not_found(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    scout = await stage.add("scout")
    path = save(scout, ("user", "hidden"))
    usual = reads._read_conversation

    def remove_and_read(state: State) -> ConversationText:
        path.unlink()
        return usual(state)

    monkeypatch.setattr(reads, "_read_conversation", remove_and_read)
    assert (await transcript_refused(stage)).trouble.category is Category.TARGET_NOT_FOUND


@pytest.mark.parametrize("change", ["another generation", "an end that nobody can tell"])
async def test_the_transcript_of_one_who_changes_meanwhile_is_not_told(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    scout = await stage.add("scout")
    save(scout, ("user", "hidden"))
    looks = 0
    look = Controller.look

    async def change_and_look(controller: Controller) -> Look:
        nonlocal looks
        looks += 1
        if looks == 2 and change == "another generation":
            await replace_generation(stage, scout)
        elif looks == 2:
            stage.see(replace(scout, session=session("another")), Lifecycle.WORKING)
        return await look(controller)

    monkeypatch.setattr(Controller, "look", change_and_look)
    assert (await transcript_refused(stage)).trouble.category is Category.TARGET_AMBIGUOUS


async def test_reads_change_nothing(stage: Stage) -> None:
    scout = await stage.add("scout")
    save(scout, ("user", "said"))

    def all_files() -> dict[Path, tuple[bytes, int]]:
        files = (path for path in stage.folder.parent.rglob("*") if path.is_file())
        return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}

    before = all_files()
    await list_agents(stage.controller())
    await inspect(stage.controller(), agent="scout")
    await transcript(stage.controller(), agent="scout")
    assert all_files() == before
