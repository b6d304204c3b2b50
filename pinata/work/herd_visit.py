"""A person's way to agents: over the host of the session that they work for, or to what is left.

Agents are meant by their labels, which are unique in a workspace. Whoever owns one, a session or an
agent of its own, acts for the person; where its host is gone, only looking and clearing up is left.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

import trio

from agents.herdsman.caller import Caller
from agents.herdsman.controller import Birth, Controller
from agents.herdsman.identity import SessionId
from agents.herdsman.premises import Premises
from agents.herdsman.record import Contents
from agents.herdsman.scan import scan
from engine.core.errors import ConflictError, ExternalError, PinataError, UsageError
from engine.records.host import HostRecordV1, hello
from engine.system import sockets
from pinata.work.context import Context
from pinata.work.frames import FrameError, FrameReader, send_frame
from pinata.work.herd_place import Ground, current_roster
from pinata.work.herd_strangers import AwayOwner, NoRuntime
from pinata.work.host_record import find_host
from pinata.work.session import Session

# A close waits for agents to end, and a host may be busy.
ANSWER_LIMIT_S: Final = 60.0
_FRAME_LIMIT_BYTES: Final = 16 << 20

# Carries out a tool of the herd: for an owner, by name, with arguments.
Carry = Callable[[Controller, str, Mapping[str, Any]], Awaitable[dict[str, Any]]]


class UnknownAgentError(UsageError):
    """No agent is called so where the caller stands."""

    def __init__(self, label: str, workspace: str, known: Sequence[str]) -> None:
        self.label = label
        self.known = tuple(known)
        verb = "is" if len(known) == 1 else "are"
        there = f"there {verb} {', '.join(known) or 'none'}"
        super().__init__(f"no agent is called {label!r} in {workspace}; {there}")


@dataclass(frozen=True, slots=True)
class Visit:
    """A person who looks at the agents of the workspace that they stand in.

    Attributes:
        context: the person's.
        carry: carries out what no host does.
    """

    context: Context
    premises: Premises
    ground: Ground
    carry: Carry

    async def leads(self) -> list[SessionId]:
        """Return the sessions that agents in this workspace work for in the end, sorted.

        Raises:
            ExternalError: the mailboxes cannot be read.
        """
        here = await self._here()
        return sorted({_lead(here, one) for one in here})

    async def list_agents(self, lead: SessionId) -> dict[str, Any]:
        """Return what `agent_list` tells a session; where it cannot be asked, an error says why."""
        try:
            return await self._call(lead, lead, "agent_list", {})
        except PinataError as error:
            # Other sessions can be asked all the same.
            return {"ok": False, "error": {"message": str(error)}}

    async def call(self, label: str, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a tool of the herd answers the owner of an agent.

        Raises:
            UnknownAgentError: there is none.
            PinataError: it was refused, or its host does not answer.
        """
        here = await self._here()
        named = next((one for one in here if one.state.of.label == label), None)
        if named is None:
            known = sorted(one.state.of.label for one in here)
            raise UnknownAgentError(label, str(self.ground.workspace), known)
        lead, owner = _lead(here, named), named.state.of.owner
        return await self._call(lead, owner, tool, {"agent": label, **arguments})

    async def _here(self) -> list[Contents]:
        workspace = str(self.ground.workspace)
        found = await scan(self.premises)
        return [one for one in found.contents if one.state.of.workspace == workspace]

    async def _call(
        self, lead: SessionId, owner: SessionId, tool: str, arguments: Mapping[str, Any]
    ) -> dict[str, Any]:
        record = await find_host(Session.of(lead, self.context.environment))
        stream = None if record is None else await _connect(record)
        if record is None or stream is None:
            stranger = self._stranger(owner, is_lead=owner == lead)
            return await self.carry(stranger, tool, arguments)
        async with stream:
            return await _ask(stream, self._hello(record, lead, owner), tool, arguments)

    def _hello(self, record: HostRecordV1, lead: SessionId, owner: SessionId) -> dict[str, Any]:
        where = {"owner": owner, "cwd": str(self.ground.cwd), "trust": self.ground.trust}
        return {**hello(record.token, "person", lead), **where}

    def _stranger(self, owner: SessionId, *, is_lead: bool) -> Controller:
        """Return an owner that nobody speaks for and whose agents no process runs."""
        workspace, cwd = str(self.ground.workspace), str(self.ground.cwd)
        return Controller(
            premises=self.premises,
            runtime=NoRuntime(),
            owner=AwayOwner(owner),
            caller=Caller(owner, workspace, cwd, is_lead=is_lead),
            roster=lambda: current_roster(self.context, self.ground),
            attendant=_no_attendant,
        )


def _no_attendant(_: Birth) -> NoReturn:
    raise AssertionError("nobody starts an agent from here")


def _lead(here: Sequence[Contents], one: Contents) -> SessionId:
    """Return the session that an agent works for in the end."""
    by_session = {each.state.session: each.state.of.owner for each in here}
    lead = one.state.of.owner
    for _ in here:
        lead = by_session.get(lead, lead)
    return lead


async def _connect(record: HostRecordV1) -> trio.SocketStream | None:
    """Return a connection to a host; None when it was killed."""
    try:
        return await sockets.connect(Path(record.socket))
    except sockets.NobodyListensError:
        return None


async def _ask(
    stream: trio.SocketStream, first: Mapping[str, Any], tool: str, arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what a host answers to one call.

    Raises:
        ConflictError: it refused.
        ExternalError: it does not answer.
    """
    reader = FrameReader(stream, _FRAME_LIMIT_BYTES)
    call = {"type": "call", "id": 1, "tool": tool, "arguments": dict(arguments)}
    with trio.move_on_after(ANSWER_LIMIT_S):
        await send_frame(stream, first, patience_s=ANSWER_LIMIT_S)
        await send_frame(stream, call, patience_s=ANSWER_LIMIT_S)
        while (frame := await reader.receive()) is not None:
            match frame.get("type"):
                case "result":
                    return dict(frame["answer"])
                case "error" | "refused":
                    raise ConflictError(str(frame["error"]))
        raise FrameError("the host of the session ended before it had answered")
    raise ExternalError(f"the host of the session did not answer within {ANSWER_LIMIT_S:g} s")
