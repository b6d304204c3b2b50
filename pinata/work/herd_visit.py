"""A person's way to agents: over the host of the session that they work for, or to what is left.

A person reaches all agents of the sessions that have one where the person stands, since these are
what a session shows of itself. A label and the workspace that its agent was started in are one
agent's alone. Whoever owns it, a session or an agent of its own, acts for the person; where its
host is gone, only looking and clearing up is left.
"""

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import trio

from agents.herdsman.caller import Caller
from agents.herdsman.controller import Controller
from agents.herdsman.findings import Scan
from agents.herdsman.identity import SessionId
from agents.herdsman.premises import Premises
from agents.herdsman.record import State
from agents.herdsman.scan import scan
from agents.herdsman.set_aside import set_aside
from engine.core.errors import ConflictError, ExternalError, PinataError, UsageError
from engine.records.host import HostRecordV1, hello
from engine.system import sockets
from pinata.work.context import Context
from pinata.work.frames import FrameError, FrameReader, send_frame
from pinata.work.herd_place import Ground, Place, current_roster, find_ground
from pinata.work.herd_strangers import AwayOwner, NoRuntime, no_attendant
from pinata.work.host_record import find_host
from pinata.work.session import Session

# A close waits for agents to end, and a host may be busy.
ANSWER_LIMIT_S: Final = 60.0
_FRAME_LIMIT_BYTES: Final = 16 << 20

# Carries out a tool of the herd: for an owner, by name, with arguments.
Carry = Callable[[Controller, str, Mapping[str, Any]], Awaitable[dict[str, Any]]]


class UnknownAgentError(UsageError):
    """No agent is called so, as far as the caller can reach from where it stands."""

    def __init__(self, label: str, workspace: str, known: Sequence[str]) -> None:
        self.label = label
        self.known = tuple(known)
        verb = "is" if len(known) == 1 else "are"
        there = f"there {verb} {', '.join(known) or 'none'}"
        super().__init__(f"no agent is called {label!r} in {workspace}; {there}")


class SeveralAgentsError(UsageError):
    """More than one agent is called so, and none of them was started where the caller stands."""

    def __init__(self, label: str, workspaces: Sequence[str]) -> None:
        self.label = label
        places = " and in ".join(workspaces)
        super().__init__(f"agents called {label!r} were started in {places}: say which with --in")


@dataclass(frozen=True, slots=True)
class FoundAgent:
    """An agent, and the session that it works for in the end.

    Attributes:
        lead: a person's session, whose host runs the agent.
    """

    state: State
    lead: SessionId

    @property
    def label(self) -> str:
        """What its owner calls it."""
        return self.state.of.label

    @property
    def workspace(self) -> str:
        """Where it was started."""
        return self.state.of.workspace


@dataclass(frozen=True, slots=True)
class Visit:
    """A person who looks at agents from the workspace that they stand in.

    Attributes:
        context: the person's.
        carry: carries out what no host does.
    """

    context: Context
    premises: Premises
    ground: Ground
    carry: Carry

    async def list_all(self) -> dict[str, Any]:
        """Return the sessions that agents here work for in the end, and what each is told of them.

        Returns:
            The `workspace` that the person stands in, and by their ids the `sessions`, each with
            its `session`, and its `agents` as `agent_list` has them. One that cannot be asked has
            none, and an `error` that says why. The mailboxes of the user that cannot be read are
            `unreadable`, each with its `folder` and a `diagnostic`.

        Raises:
            ExternalError: the mailboxes cannot be read.
        """
        found = await scan(self.premises)
        leads = {one.lead for one in await self._reached(find_agents(found))}
        return {
            "workspace": str(self.ground.workspace),
            "sessions": [await self._list(lead) for lead in sorted(leads)],
            "unreadable": [
                {"folder": one.folder, "diagnostic": one.diagnostic} for one in found.unreadable
            ],
        }

    async def _list(self, lead: SessionId) -> dict[str, Any]:
        here = str(self.ground.workspace)
        try:
            answer = await self._call(lead, lead, "agent_list", {}, here)
        except PinataError as error:
            # Other sessions can be asked all the same.
            return {"session": lead, "agents": [], "error": str(error)}
        if not answer["ok"]:
            return {"session": lead, "agents": [], "error": answer["error"]["message"]}
        return {"session": lead, "agents": answer["agents"]}

    async def set_aside(self, folder: str) -> dict[str, Any]:
        """Move a mailbox that cannot be read to where it is in nobody's way; see `set_aside`.

        Returns:
            Its `folder`, and where that is now, `moved_to`.

        Raises:
            HerdError: it was not moved.
        """
        moved = await set_aside(self.premises, folder)
        return {"action": "set-aside", "folder": folder, "moved_to": str(moved)}

    async def call(
        self, label: str, tool: str, arguments: Mapping[str, Any], *, workspace: str | None = None
    ) -> dict[str, Any]:
        """Return what a tool of the herd answers the owner of an agent.

        Args:
            label: the agent's.
            tool: its name.
            arguments: beside the agent.
            workspace: that the agent was started in, anywhere; None means one that is listed here,
                rather of this workspace than of another one.

        Raises:
            UnknownAgentError: there is none.
            SeveralAgentsError: several are meant alike.
            PinataError: it was refused, or its host does not answer.
        """
        found = await self._find(label, workspace)
        return await self._call(
            found.lead, found.state.of.owner, tool, {"agent": label, **arguments}, found.workspace
        )

    async def _find(self, label: str, workspace: str | None) -> FoundAgent:
        known, here = find_agents(await scan(self.premises)), str(self.ground.workspace)
        if workspace is None:
            known, where = await self._reached(known), here
        else:
            where = await trio.to_thread.run_sync(os.path.realpath, self.ground.cwd / workspace)
            known = [one for one in known if one.workspace in (workspace, where)]
        named = [one for one in known if one.label == label]
        nearest = [one for one in named if one.workspace == here] or named
        if not nearest:
            raise UnknownAgentError(label, where, sorted({one.label for one in known}))
        if len(nearest) > 1:
            raise SeveralAgentsError(label, [one.workspace for one in nearest])
        return nearest[0]

    async def _reached(self, known: Sequence[FoundAgent]) -> list[FoundAgent]:
        """Return those of the sessions that have an agent here, wherever each of them works."""
        leads = {one.lead for one in known if one.workspace == str(self.ground.workspace)}
        # A place that got another name is known by where its agents work.
        others = {Path(one.state.cwd) for one in known if one.lead not in leads}
        here = {str(cwd) for cwd in others if await self._is_here(cwd)}
        leads |= {one.lead for one in known if one.state.cwd in here}
        return [one for one in known if one.lead in leads]

    async def _is_here(self, cwd: Path) -> bool:
        """Return whether a folder is in this workspace, and in no other one within."""
        workspace = self.ground.workspace
        if not cwd.is_relative_to(workspace):
            return False
        try:
            place = await find_ground(self.context, Place(cwd, self.ground.trust))
        except ExternalError:
            return True
        return place.workspace == workspace

    async def _call(
        self,
        lead: SessionId,
        owner: SessionId,
        tool: str,
        arguments: Mapping[str, Any],
        workspace: str,
    ) -> dict[str, Any]:
        record = await find_host(Session.of(lead, self.context.environment))
        stream = None if record is None else await _connect(record)
        if record is None or stream is None:
            stranger = self._stranger(owner, workspace, is_lead=owner == lead)
            return await self.carry(stranger, tool, arguments)
        async with stream:
            return await _ask(stream, self._hello(record, lead, owner), tool, arguments)

    def _hello(self, record: HostRecordV1, lead: SessionId, owner: SessionId) -> dict[str, Any]:
        where = {"owner": owner, "cwd": str(self.ground.cwd), "trust": self.ground.trust}
        return {**hello(record.token, "person", lead), **where}

    def _stranger(self, owner: SessionId, workspace: str, *, is_lead: bool) -> Controller:
        """Return an owner that nobody speaks for and whose agents no process runs.

        Args:
            owner: its session.
            workspace: that its agent was started in; an agent has none in any other.
            is_lead: it is a person's session.
        """
        cwd = str(self.ground.cwd)
        return Controller(
            premises=self.premises,
            runtime=NoRuntime(),
            owner=AwayOwner(owner),
            caller=Caller(owner, workspace, cwd, is_lead=is_lead),
            roster=lambda: current_roster(self.context, self.ground),
            attendant=no_attendant,
        )


def find_agents(seen: Scan) -> list[FoundAgent]:
    """Return all agents of the user, by workspace and label."""
    states = [one.state for one in seen.contents]
    owners = {(one.of.workspace, one.session): one.of.owner for one in states}
    return [FoundAgent(one, _lead(owners, one)) for one in states]


def _lead(owners: Mapping[tuple[str, SessionId], SessionId], state: State) -> SessionId:
    """Return the session that an agent works for in the end; in a circle, one of those in it."""
    workspace, lead = state.of.workspace, state.of.owner
    met = {state.session}
    while lead not in met and (workspace, lead) in owners:
        met.add(lead)
        lead = owners[workspace, lead]
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
