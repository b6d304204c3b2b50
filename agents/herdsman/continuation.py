"""Has a saved session of an agent go on with another task, as a new agent of the same label.

Any session of an agent can be continued whose definition may be used now, as long as nothing else
has it: no agent that is there, and no record whose agent cannot be accounted for.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import trio

from agents.definition import Source
from agents.herdsman.assignment import Order
from agents.herdsman.birth import SavedSession
from agents.herdsman.caller import Caller
from agents.herdsman.config import read_config
from agents.herdsman.controller import Controller
from agents.herdsman.errors import HerdError, ambiguous, broken, busy, invalid
from agents.herdsman.look import Look
from agents.herdsman.mailbox_locks import activation_lock
from agents.herdsman.policy import Effective
from agents.herdsman.saved_session import (
    ManagedSession,
    find_session,
    read_managed_session,
    same_session_file,
)
from agents.herdsman.startup import check_free, find_definition, start_agent
from engine.core.errors import ExternalError

_CONTINUE: Final = "continue"
_FRESH: Final = (
    "delegate to a fresh agent, and give it the earlier result and the files that matter"
)


async def continue_(
    controller: Controller, *, session: str, task: str, files: Sequence[str]
) -> dict[str, Any]:
    """Start an agent on a saved session, and return once it has taken the task.

    It works where the session did. Its definition is the one that holds now; model and thinking
    are the session's own where that says nothing.

    Args:
        controller: who delegates.
        session: exact path or full id.
        task: what the agent is to do.
        files: paths and references that go with the task.

    Raises:
        HerdError: as `delegate`; and AGENT_BUSY or TARGET_AMBIGUOUS where something has the
            session.
    """
    try:
        async with controller.claim_delegation():
            path = await _find(controller, session)
            async with activation_lock(controller.premises, str(path)):
                return await _continue(controller, path, task, files)
    except HerdError as error:
        raise error.told(operation=_CONTINUE) from error
    except ExternalError as error:
        raise broken(str(error), next_action=_FRESH).told(operation=_CONTINUE) from error


async def _find(controller: Controller, session: str) -> Path:
    def find() -> Path:
        return find_session(
            session,
            agent_dir=controller.agent_dir,
            home=controller.home,
            cwd=controller.caller.cwd,
        )

    return await trio.to_thread.run_sync(find)


async def _continue(
    controller: Controller, path: Path, task: str, files: Sequence[str]
) -> dict[str, Any]:
    managed = await trio.to_thread.run_sync(read_managed_session, path)
    saved, caller = managed.saved, controller.caller
    config = await read_config(controller.premises)
    if saved.session == caller.session:
        raise invalid("a session cannot continue itself", next_action=_FRESH)
    _check_retired(managed, is_on=config.context_retirement)
    effective = await find_definition(controller, saved.definition)
    await trio.to_thread.run_sync(_check_place, saved, effective, caller)
    seen = await controller.look()
    await trio.to_thread.run_sync(_check_unheld, seen, saved, caller)
    await check_free(controller, saved.label)
    order = Order(
        operation=_CONTINUE,
        effective=effective,
        text=task,
        files=files,
        label=saved.label,
        cwd=saved.cwd,
        managed=managed,
    )
    assignment = await order.prepare(controller, config)
    return await start_agent(controller, assignment, saved.label)


def _check_retired(managed: ManagedSession, *, is_on: bool) -> None:
    if is_on and managed.is_retired:
        raise invalid(
            f"the session {managed.saved.session} is retired: its context is full",
            next_action=_FRESH,
        )


def _check_place(saved: SavedSession, effective: Effective, caller: Caller) -> None:
    """Check that the agent may work where its session did; blocks.

    Raises:
        HerdError: it may not, or the folder is gone (INVALID_REQUEST).
    """
    cwd = os.path.realpath(saved.cwd)
    if not Path(saved.cwd).is_absolute() or not Path(cwd).is_dir():
        raise invalid(
            f"the session {saved.session} worked in {saved.cwd}, which is no folder now",
            next_action=_FRESH,
        )
    if not caller.is_lead and cwd != os.path.realpath(caller.cwd):
        raise invalid(
            f"the session {saved.session} worked in {saved.cwd}, and not where this agent does",
            next_action=_FRESH,
        )
    is_projects = Source.PROJECT in effective.definition.sources
    if is_projects and not Path(cwd).is_relative_to(os.path.realpath(caller.workspace)):
        raise invalid(
            f"the definition {saved.definition} is a project's own, and the session "
            f"{saved.session} worked outside of it, in {saved.cwd}",
            next_action="call from a session in that project",
        )


def _check_unheld(seen: Look, saved: SavedSession, caller: Caller) -> None:
    """Check that nothing has a session; blocks.

    Raises:
        HerdError: one thing has it (AGENT_BUSY), or several (TARGET_AMBIGUOUS).
    """
    holders = set(_holders(seen, saved))
    if not holders:
        return
    if len(holders) > 1:
        raise ambiguous(
            f"the session {saved.session} is held in {len(holders)} places",
            next_action="close what agent_list shows of it, in the sessions that own it",
        )
    own: dict[str, str] = {one.state.handle: one.state.of.label for one in seen.own(caller)}
    label = own.get(holders.pop()[1])
    if label is None:
        raise busy(
            f"the session {saved.session} is held by an agent of another session",
            next_action="continue it when that agent was closed, or delegate to a fresh one",
        )
    raise busy(
        f"the session {saved.session} is held by the agent {label}",
        next_action=f"wait for its result, or close {label} with agent_close if that is offered",
    )


def _holders(seen: Look, saved: SavedSession) -> Iterator[tuple[str, str]]:
    """Yield where a session is, by workspace and handle: what records say, and what is seen."""
    for contents in seen.scan.contents:
        state = contents.state
        if _is_it(saved, state.session, state.session_file):
            yield state.of.workspace, state.of.handle
    known = {one.state.handle: one.state.of.workspace for one in seen.scan.contents}
    for agent in seen.inventory.agents:
        if _is_it(saved, agent.session, agent.session_file):
            yield agent.workspace, agent.handle
            known[agent.handle] = agent.workspace
    for slot in seen.inventory.slots:
        if slot.session == saved.session:
            yield known.get(slot.handle, ""), slot.handle


def _is_it(saved: SavedSession, session: str, file: str) -> bool:
    return session == saved.session or same_session_file(file, str(saved.file))
