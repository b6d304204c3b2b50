"""Finds what an agent is started from, and starts it under a label.

The label is held from before anything is made until the call is over, so that no two agents are
ever started with it. A person's session holds it for all the workspaces that it may stand in.
"""

from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from typing import Any

from agents.herdsman.assignment import Assignment
from agents.herdsman.attempt import Attempt
from agents.herdsman.birth import Birth
from agents.herdsman.controller import Controller
from agents.herdsman.errors import broken, invalid, label_exists
from agents.herdsman.identity import Label
from agents.herdsman.instructions import instructions
from agents.herdsman.mailbox import Mailbox
from agents.herdsman.mailbox_locks import label_lock
from agents.herdsman.policy import Effective, authorised
from agents.herdsman.runtime import Launch
from agents.herdsman.scan import scan
from agents.herdsman.traces import Traces
from agents.roster import Roster
from engine.core.errors import ExternalError, PinataError


async def find_definition(controller: Controller, name: str) -> Effective:
    """Return what the definition `name` is for an agent that is launched now.

    Raises:
        HerdError: INVALID_REQUEST: the definitions cannot be read, or see `authorised`.
    """
    if not name.strip():
        raise invalid("the definition is blank", next_action="name one that agent_list shows")
    return authorised(await _read_roster(controller), name, controller.caller)


async def start_agent(
    controller: Controller, assignment: Assignment, label: Label
) -> dict[str, Any]:
    """Start an agent under a label, and return what the call answers once it has taken the task.

    Raises:
        HerdError: AGENT_LABEL_EXISTS, and nothing was tried; else see `Runtime.prepare` and
            `Attempt.carry_out`.
    """
    caller, premises = controller.caller, controller.premises
    mailbox = Mailbox.of(premises, caller.workspace, label)
    try:
        async with mailbox.claim_start(), _claim_label(controller, label):
            # It may have been given elsewhere since somebody looked.
            await _check_elsewhere(controller, label)
            async with mailbox.claim():
                await mailbox.reset()
                # An agent would try for ever, and nobody would hear why it does not come up.
                await mailbox.try_out()
            launch = _launch(controller, assignment, label, await _persona(controller, assignment))
            preparation = await controller.runtime.prepare(launch)
            attempt = Attempt(Traces(controller, assignment, mailbox))
            return await attempt.carry_out(preparation)
    finally:
        # Whoever was told that the agent is being started looks again.
        premises.signals.ring(caller.session)


async def check_free(controller: Controller, label: Label) -> None:
    """Check that no agent has a label, and that none is being started with it.

    Nor may an agent of the same person's session have it in another workspace: neither could be
    called by it any more.

    Raises:
        HerdError: AGENT_LABEL_EXISTS; or it cannot be told (INTERNAL_FAILURE).
    """
    mailbox = Mailbox.of(controller.premises, controller.caller.workspace, label)
    if await mailbox.is_occupied():
        raise label_exists(label)
    await _check_elsewhere(controller, label)


def _claim_label(controller: Controller, label: Label) -> AbstractAsyncContextManager[None]:
    """Have a label among the agents of a person's session inside the block.

    The agents of an agent are all in its own workspace, where the mailbox is enough.
    """
    caller = controller.caller
    return (
        label_lock(controller.premises, caller.session, label) if caller.is_lead else nullcontext()
    )


async def _check_elsewhere(controller: Controller, label: Label) -> None:
    caller = controller.caller
    if not caller.is_lead:
        return
    try:
        found = await scan(controller.premises)
    except ExternalError as error:
        raise broken(f"cannot tell which labels are taken: {error}") from error
    for of in (one.state.of for one in found.contents):
        if (of.owner, of.label) == (caller.session, label):
            raise label_exists(label, of.workspace)


async def _read_roster(controller: Controller) -> Roster:
    try:
        return await controller.roster()
    except PinataError as error:
        raise invalid(f"the definitions cannot be read: {error}") from error


async def _persona(controller: Controller, assignment: Assignment) -> str:
    """Return what an agent is told of itself; one that may delegate is told of that as well."""
    definition = assignment.effective.definition
    if not assignment.effective.is_delegating:
        return assignment.persona
    caller = replace(controller.caller, is_lead=False, allowed=frozenset(definition.agents or ()))
    told = instructions(await _read_roster(controller), caller)
    return f"{assignment.persona}\n{told}"


def _launch(controller: Controller, assignment: Assignment, label: Label, persona: str) -> Launch:
    caller, effective = controller.caller, assignment.effective
    saved = None if assignment.managed is None else assignment.managed.saved
    birth = Birth(
        generation=assignment.generation,
        owner=caller.session,
        workspace=caller.workspace,
        label=label,
        cwd=assignment.cwd,
        definition=effective.definition,
        is_delegating=effective.is_delegating,
        session=saved,
    )
    model = caller.model if saved is None or saved.model is None else saved.model
    return Launch(birth, persona, model, controller.attendant(birth))
