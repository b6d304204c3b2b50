"""What a person at a terminal asks of managed agents; hands their tools to whoever visits them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agents.herdsman.controller import Controller
from agents.herdsman.tool_names import LOOKING
from pinata.app import refuse_agents
from pinata.tools.herd import call_herd
from pinata.tools.registry import Answer
from pinata.work.context import Context
from pinata.work.herd_place import Place, find_ground, premises_of
from pinata.work.herd_settings import change_settings
from pinata.work.herd_visit import Visit


async def list_herds(context: Context) -> Answer:
    """Return the agents that a person reaches from where the caller stands; see `Visit`."""
    return await (await _visit(context)).list_all()


async def set_mailbox_aside(context: Context, folder: str) -> Answer:
    """Move a mailbox that cannot be read out of the way; see `Visit.set_aside`."""
    refuse_agents(context.environment)
    return await (await _visit(context)).set_aside(folder)


async def call_owner(
    context: Context,
    label: str,
    name: str,
    arguments: Mapping[str, Any],
    *,
    workspace: str | None = None,
) -> Answer:
    """Return what a tool answers the owner of an agent.

    Args:
        context: the caller's.
        label: the agent's.
        name: of the tool.
        arguments: beside the agent.
        workspace: that the agent was started in; None means one of those listed.

    Raises:
        PinataError: no agent is called so, or the call was not carried out.
    """
    if name not in LOOKING:
        refuse_agents(context.environment)
    return await (await _visit(context)).call(label, name, arguments, workspace=workspace)


async def configure_herd(context: Context, changes: Mapping[str, object]) -> Answer:
    """Return what the user has set for managed agents, once that is changed.

    Args:
        context: the caller's.
        changes: see `pinata.work.herd_settings.change_settings`.

    Raises:
        PinataError: they do not fit, or the file cannot be read or written.
    """
    if changes:
        refuse_agents(context.environment)
    return await change_settings(context, changes)


async def _visit(context: Context) -> Visit:
    async def carry(owner: Controller, name: str, arguments: Mapping[str, Any]) -> Answer:
        return await call_herd(replace(context, herd=owner), name, dict(arguments))

    ground = await find_ground(context, Place(context.cwd, context.project_trust))
    return Visit(context, premises_of(context), ground, carry)
