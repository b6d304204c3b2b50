"""Notices that a person has opened a session in which a managed agent is at work.

Whoever runs an agent refuses to continue a session that is open; see `pinata.work.herd_ways`.
Nobody can keep a Pi from opening the session of an agent, so the person is told.
"""

import logging
from collections.abc import Mapping, Sequence

import trio

from agents.herdsman.identity import SessionId
from agents.herdsman.projection import is_done
from agents.herdsman.scan import scan
from engine.core.errors import PinataError
from engine.system.holder import read_live_holder
from pinata.work.context import Context
from pinata.work.herd_place import premises_of
from pinata.work.herd_visit import find_agents
from pinata.work.session import Session

_log = logging.getLogger(f"pinata.{__name__}")


async def tell_agents_within(context: Context, session: Session) -> Sequence[str]:
    """Return what to tell of agents that work in a session which is open as a person's own.

    Of two that write one session, each goes on from its own end and hides what the other says.

    Args:
        context: the caller's.
        session: its lock is held by this process.
    """
    if context.agent_dir is None:
        await trio.lowlevel.checkpoint()
        return ()
    try:
        found = find_agents(await scan(premises_of(context)))
        return [
            _says(one.label, one.lead)
            for one in found
            if one.state.session == session.key
            and not is_done(one.state)
            and await _is_run(one.lead, context.environment)
        ]
    except (PinataError, OSError) as error:
        _log.warning("it cannot be told whether an agent works in the session: %s", error)
        return ()


async def _is_run(lead: SessionId, environment: Mapping[str, str]) -> bool:
    """Return whether the host lives that runs the agents of a session; they end with it."""
    lock = Session.of(lead, environment).lock
    return await trio.to_thread.run_sync(read_live_holder, lock) is not None


def _says(label: str, lead: str) -> str:
    return (
        f"the managed agent {label} of the session {lead} is working in this session: what is said "
        "here and what it says hide each other. Quit this Pi and wait for its result; "
        f"`pinata herd steer {label}` tells it something, and `pinata herd close {label}` ends it"
    )
