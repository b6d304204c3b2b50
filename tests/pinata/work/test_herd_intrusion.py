import logging
from pathlib import Path
from typing import Any

import pytest

from agents.herdsman.identity import SessionId
from agents.herdsman.record import State
from engine.system import locks
from pinata import app
from pinata.work.context import Context
from pinata.work.herd_intrusion import tell_agents_within
from pinata.work.herd_place import premises_of
from pinata.work.homecoming import come_home
from pinata.work.observer import Silence
from pinata.work.session import Session, prepare_session
from tests.support.herd_boxes import box_of
from tests.support.herd_records import LEAD, TASK, state_of
from tests.support.hosted import host_context, hosted
from tests.support.projects import Project


def context_of(folder: Path) -> Context:
    environment = {"HOME": str(folder), "PI_CODING_AGENT_DIR": str(folder / "agent")}
    return app.build_context(environment, folder, Silence())


async def put(context: Context, label: str, owner: SessionId = LEAD, **more: Any) -> State:
    """Have the mailbox of an agent."""
    state = state_of(label, owner=owner, **{"active": TASK, **more})
    await box_of(premises_of(context), label).write_state(state, creates=True)
    return state


async def told(context: Context, session: SessionId, host_of: SessionId = LEAD) -> str:
    """Return what is told whoever opens a session while another one's host lives."""
    lead = Session.of(host_of, context.environment)
    await prepare_session(lead)
    async with locks.claim(lead.lock, what="the session", holder="process 7"):
        found = await tell_agents_within(context, Session.of(session, context.environment))
    return "\n".join(found)


async def test_person_is_told_which_agent_works_in_the_session_that_they_open(
    tmp_path: Path,
) -> None:
    context = context_of(tmp_path)
    boss = await put(context, "boss")
    child = await put(context, "child", owner=boss.session)
    assert f"the managed agent boss of the session {LEAD} " in await told(context, boss.session)
    # An agent of an agent is run by the host of the same session.
    text = await told(context, child.session)
    assert f"the managed agent child of the session {LEAD} " in text
    assert "hide each other" in text
    assert "`pinata herd close child`" in text


async def test_session_in_which_nobody_works_is_opened_without_a_word(tmp_path: Path) -> None:
    context = context_of(tmp_path)
    assert await told(context, LEAD) == ""
    lost = await put(context, "lost")
    other = SessionId("of somebody else")
    assert await told(context, lost.session, host_of=other) == "", "its host is dead"
    assert await told(context, LEAD) == "", "the owner's own"
    done = await put(context, "done", active=None, completed=TASK)
    assert await told(context, done.session) == ""


async def test_person_is_warned_by_the_host_of_the_session_that_they_open(tmp_path: Path) -> None:
    project = Project.create(tmp_path, {"a.txt": "a\n"})
    lead = Session.of(LEAD, project.env)
    await prepare_session(lead)
    agent = await put(app.build_context(project.env, tmp_path, Silence()), "scout")
    async with hosted(project, agent.session):
        context = host_context(project)
        assert context.session is not None
        async with locks.claim(lead.lock, what="the session", holder="process 7"):
            (notice,) = await come_home(context, context.session)
    assert "agent scout" in notice


async def test_what_cannot_be_told_of_agents_is_logged_and_keeps_nobody_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    context = context_of(tmp_path)
    mailboxes = premises_of(context).mailboxes
    mailboxes.parent.mkdir(parents=True)
    mailboxes.write_text("no folder")
    with caplog.at_level(logging.WARNING):
        assert await told(context, LEAD) == ""
    assert "cannot be told whether an agent works in the session" in caplog.text


async def test_where_no_agents_can_be_none_is_looked_for(tmp_path: Path) -> None:
    context = app.build_context({"XDG_STATE_HOME": str(tmp_path)}, tmp_path, Silence())
    session = Session.of(LEAD, context.environment)
    assert list(await tell_agents_within(context, session)) == []
