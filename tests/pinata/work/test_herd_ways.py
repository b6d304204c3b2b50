import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio

from agents.definition import Source
from agents.herd_definition import HerdDefinition
from agents.herdsman.birth import Birth, SavedSession
from agents.herdsman.errors import Category, HerdError, Trouble
from agents.herdsman.identity import GenerationId, Label
from agents.herdsman.runtime import Launch
from agents.herdsman.session_file import begin_managed_session
from engine.core.errors import ExternalError
from engine.core.spec import Backend, ModelChoice, Thinking
from engine.system import faults, locks
from pinata import app
from pinata.work.context import Context
from pinata.work.herd_runtime import FindWay
from pinata.work.herd_ways import InProcessWay, come_up, open_ways
from pinata.work.observer import Silence
from pinata.work.session import Session, prepare_session
from tests.support.herd_records import LEAD, session, uid
from tests.support.herd_stage import PlayedAttendant
from tests.support.real_pi import fake_pi


@pytest.fixture
def saved(tmp_path: Path) -> SavedSession:
    path, name, label = tmp_path / "s.jsonl", session("scout"), Label("scout")
    begin_managed_session(path, name, cwd="/", definition="scout", label=label, now_ms=1)
    return SavedSession(name, path, "/", "scout", label)


def launch_of(continued: SavedSession | None) -> Launch:
    birth = Birth(
        generation=GenerationId(uid("generation")),
        owner=LEAD,
        workspace="/",
        label=Label("scout"),
        cwd="/",
        definition=HerdDefinition("scout", "d", "Look.\n", (Source.USER,)),
        session=continued,
    )
    return Launch(birth, "Look.\n", None, PlayedAttendant())


@asynccontextmanager
async def opening(fault: Exception | None = None) -> AsyncIterator[str]:
    await trio.lowlevel.checkpoint()
    if fault is not None:
        raise fault
    yield "conversation"


async def fail(launch: Launch, saved: SavedSession) -> None:
    async with AsyncExitStack() as stack:
        with pytest.raises(ExternalError, match="no way"):
            await come_up(stack, opening(ExternalError("no way")), launch, saved)


async def test_a_session_made_for_an_agent_that_does_not_come_up_is_removed(
    saved: SavedSession,
) -> None:
    await fail(launch_of(None), saved)
    assert not saved.file.exists()


async def test_a_session_that_was_there_before_stays(saved: SavedSession) -> None:
    await fail(launch_of(saved), saved)
    assert saved.file.exists()


async def test_a_session_of_an_agent_that_came_up_stays_whatever_happens_then(
    saved: SavedSession,
) -> None:
    async with AsyncExitStack() as stack:
        assert await come_up(stack, opening(), launch_of(None), saved) == "conversation"
        stack.push_async_callback(trio.lowlevel.checkpoint)
        with trio.CancelScope() as scope:
            scope.cancel()
            await stack.aclose()
    assert scope.cancelled_caught
    assert saved.file.exists()


async def test_a_start_that_is_cancelled_leaves_no_session(saved: SavedSession) -> None:
    async with AsyncExitStack() as stack:
        with trio.CancelScope() as scope:
            scope.cancel()
            await come_up(stack, opening(), launch_of(None), saved)
    assert not saved.file.exists()


async def test_why_an_agent_did_not_come_up_is_told_though_its_session_stays(
    saved: SavedSession, caplog: pytest.LogCaptureFixture
) -> None:
    faults.install("error:herd.session.discarding:1:EIO")
    try:
        await fail(launch_of(None), saved)
    finally:
        faults.install("")
    assert "is left" in caplog.text


@pytest.fixture
async def ways(tmp_path: Path) -> AsyncIterator[FindWay]:
    """Ways of somebody who has no Pi, and a key for a provider."""
    async with open_ways(context_of(tmp_path, "/usr/bin:/bin")) as found:
        yield found


def context_of(folder: Path, path: str) -> Context:
    keys = folder / ".pi" / "agent" / "auth.json"
    keys.parent.mkdir(parents=True)
    keys.write_text(json.dumps({"anthropic": {"type": "api_key", "key": "a-key"}}))
    env = {"HOME": str(folder), "PATH": path}
    return app.build_context(env, folder, Silence(), traffic=app.new_traffic())


def scripted(folder: Path) -> tuple[str, str]:
    (folder / "script.json").write_text(json.dumps({"*": [{"text": "Done."}]}))
    return "scripted", str(folder / "script.json")


def born(launch: Launch, **changes: Any) -> Launch:
    return replace(launch, birth=replace(launch.birth, **changes))


def launch_with(given: ModelChoice | None = None, **stated: Any) -> Launch:
    about: dict[str, Any] = {"sources": (Source.USER,), "file": "/a/scout.md"} | stated
    definition = HerdDefinition("scout", "d", "Look.\n", **about)
    return replace(born(launch_of(None), definition=definition), model=given)


async def refusal(ways: FindWay, launch: Launch) -> Trouble:
    with pytest.raises(HerdError) as caught:
        await ways(launch)
    assert caught.value.trouble.category is Category.INVALID_REQUEST
    return caught.value.trouble


CLAUDE = ("anthropic", "claude-opus-4-1")


async def test_agent_is_a_pi_where_one_is_installed_and_the_model_is_one_that_pi_can_ask(
    tmp_path: Path,
) -> None:
    async with open_ways(context_of(tmp_path, fake_pi(tmp_path / "pi"))) as ways:
        assert (await ways(launch_with(model=CLAUDE))).backend is Backend.PROCESS
        stated = launch_with(model=CLAUDE, backend=Backend.IN_PROCESS)
        assert (await ways(stated)).backend is Backend.IN_PROCESS
        played = launch_with(model=scripted(tmp_path))
        assert (await ways(played)).backend is Backend.IN_PROCESS


async def test_session_that_a_person_has_open_is_not_continued(
    tmp_path: Path, saved: SavedSession
) -> None:
    context = context_of(tmp_path, "/usr/bin:/bin")
    opened = Session.of(saved.session, context.environment)
    await prepare_session(opened)
    launch = born(launch_with(model=CLAUDE), session=saved)
    async with open_ways(context) as ways:
        async with locks.claim(opened.lock, what="the session", holder="process 7"):
            with pytest.raises(HerdError, match="open in a Pi of its own") as caught:
                await ways(launch)
            assert caught.value.trouble.category is Category.AGENT_BUSY
        assert (await ways(launch)).backend is Backend.IN_PROCESS


async def test_session_of_which_nobody_can_tell_whether_it_is_open_is_not_continued(
    tmp_path: Path, saved: SavedSession
) -> None:
    context = context_of(tmp_path, "/usr/bin:/bin")
    lock = Session.of(saved.session, context.environment).lock
    lock.parent.mkdir(parents=True)
    lock.symlink_to(lock)
    async with open_ways(context) as ways:
        with pytest.raises(HerdError, match="cannot tell whether") as caught:
            await ways(born(launch_with(model=CLAUDE), session=saved))
    assert caught.value.trouble.category is Category.INTERNAL_FAILURE


async def test_agent_lives_in_the_host_where_there_is_no_pi(ways: FindWay) -> None:
    assert (await ways(launch_with(model=CLAUDE))).backend is Backend.IN_PROCESS


async def test_stated_backend_that_is_not_there_is_refused_in_one_sentence(
    ways: FindWay, tmp_path: Path
) -> None:
    trouble = await refusal(ways, launch_with(model=CLAUDE, backend=Backend.PROCESS))
    assert trouble.message.startswith(
        "the agent scout cannot have the model anthropic/claude-opus-4-1: process: "
    )
    assert "there is no pi on PATH" in trouble.message
    assert "\n" not in trouble.message
    assert trouble.next_action == "state another `model` or `backend` in /a/scout.md"
    script = launch_with(model=scripted(tmp_path), backend=Backend.PROCESS)
    assert "in-process only" in (await refusal(ways, script)).message


async def test_backend_of_panes_is_refused(ways: FindWay) -> None:
    trouble = await refusal(ways, launch_with(model=CLAUDE, backend=Backend.HERDR_PI))
    assert trouble.message == (
        "the definition scout asks for the backend herdr-pi, which is not in this release"
    )
    assert trouble.next_action == (
        "state the `backend` process or in-process, or none, in /a/scout.md"
    )


async def test_what_the_definition_states_comes_before_what_the_session_has(
    ways: FindWay, tmp_path: Path
) -> None:
    session = ModelChoice(*CLAUDE, Thinking.HIGH)
    for stated, expected in (
        ({}, session),
        ({"thinking": Thinking.LOW}, ModelChoice(*CLAUDE, Thinking.LOW)),
        ({"model": scripted(tmp_path)}, ModelChoice(*scripted(tmp_path), Thinking.HIGH)),
    ):
        way = await ways(launch_with(session, **stated))
        assert isinstance(way, InProcessWay)
        assert way.choice == expected
    way = await ways(launch_with(None, model=scripted(tmp_path)))
    assert isinstance(way, InProcessWay)
    assert way.choice.thinking is Thinking.OFF


async def test_model_that_nobody_names_and_one_that_nobody_reaches_are_refused(
    ways: FindWay, tmp_path: Path
) -> None:
    trouble = await refusal(ways, launch_with())
    assert trouble.message == (
        "no model is known for the definition scout: it states none, and nobody knows with which "
        "one the session works"
    )
    assert (
        trouble.next_action
        == "choose a model in the session, or state one as `model` in /a/scout.md"
    )
    trouble = await refusal(ways, launch_with(model=("nobody", "m1")))
    assert "nobody/m1" in trouble.message
    trouble = await refusal(ways, launch_with(model=("scripted", str(tmp_path / "none.json"))))
    assert "none.json" in trouble.message


async def test_bundled_definition_is_not_to_be_changed_but_overlaid(
    ways: FindWay, tmp_path: Path
) -> None:
    bundled: dict[str, Any] = {"sources": (Source.PRESET,), "file": "/pinata/scout.md"}
    trouble = await refusal(ways, launch_with(**bundled))
    assert trouble.next_action == (
        "choose a model in the session, or state one as `model` in "
        f"{tmp_path}/.pi/agent/agents/scout.md, a file of yours that lies over the bundled one"
    )
    reviewed = await refusal(
        ways, launch_with(ModelChoice("nobody", "m1", Thinking.OFF), **bundled)
    )
    assert f" in {tmp_path}/.pi/agent/agents/scout.md, a file " in reviewed.next_action


async def test_faulty_file_of_models_is_named(ways: FindWay, tmp_path: Path) -> None:
    folder = tmp_path / ".pi" / "agent"
    (folder / "models.json").write_text("{")
    trouble = await refusal(ways, launch_with(model=("nobody", "m1")))
    assert "models.json" in trouble.message


async def test_tool_that_no_agent_in_the_host_has_is_refused(ways: FindWay, tmp_path: Path) -> None:
    launch = launch_with(model=scripted(tmp_path), tools=("read", "fly"))
    assert "fly" in (await refusal(ways, launch)).message


async def test_agent_outside_of_a_repository_lists_the_files_below_it(
    ways: FindWay, tmp_path: Path
) -> None:
    folder = tmp_path / "notes"
    (folder / "a").mkdir(parents=True)
    for name in ("b.txt", "a/b.txt"):
        (folder / name).write_text("x")
    way = await ways(born(launch_with(model=scripted(tmp_path)), cwd=str(folder)))
    assert isinstance(way, InProcessWay)
    assert await way.place.list_files() == (b"b.txt", b"a/b.txt")
