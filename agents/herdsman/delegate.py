"""Hands a task to a new agent in a session of its own."""

from collections.abc import Sequence
from typing import Any, Final

from agents.herdsman.assignment import Assignment, Order
from agents.herdsman.config import read_config
from agents.herdsman.controller import Controller
from agents.herdsman.errors import Category, HerdError, Trouble, invalid
from agents.herdsman.identity import LABEL_PATTERN, Label, is_label
from agents.herdsman.labels import label_candidates
from agents.herdsman.startup import check_free, find_definition, start_agent
from engine.core.quote import quote_value

_DELEGATE: Final = "delegate"
# As long as any label.
_ANY_LABEL: Final = Label("x" * 32)


async def delegate(
    controller: Controller,
    *,
    definition: str,
    task: str,
    label: str | None,
    files: Sequence[str],
) -> dict[str, Any]:
    """Start an agent where the caller stands, and return once it has taken the task.

    Args:
        controller: who delegates.
        definition: name of the definition that holds for the agent.
        task: what it is to do.
        label: what it is called; None chooses one after the definition.
        files: paths and references that go with the task.

    Raises:
        HerdError: it has not taken the task. Before the start nothing was made; afterwards
            `rollback_occurred` says that all of it is gone, and ROLLBACK_FAILURE that something
            is left.
    """
    try:
        async with controller.claim_delegation():
            return await _delegate(controller, definition, task, label, files)
    except HerdError as error:
        raise error.told(operation=_DELEGATE) from error


async def _delegate(
    controller: Controller, definition: str, task: str, label: str | None, files: Sequence[str]
) -> dict[str, Any]:
    effective = await find_definition(controller, definition)
    wanted = None if label is None else _label(label)
    if wanted is not None:
        await check_free(controller, wanted)
    order = Order(
        operation=_DELEGATE,
        effective=effective,
        text=task,
        files=files,
        label=wanted or _ANY_LABEL,
        cwd=controller.caller.cwd,
    )
    assignment = await order.prepare(controller, await read_config(controller.premises))
    if wanted is not None:
        return await start_agent(controller, assignment, wanted)
    return await _start_with_some_label(controller, assignment)


async def _start_with_some_label(controller: Controller, assignment: Assignment) -> dict[str, Any]:
    name = assignment.effective.definition.name
    for label in label_candidates(name):
        try:
            await check_free(controller, label)
            return await start_agent(controller, assignment, label)
        except HerdError as error:
            if error.trouble.category is not Category.AGENT_LABEL_EXISTS:
                raise
    raise HerdError(
        Trouble(
            Category.AGENT_LABEL_EXISTS,
            f"every label for agents of {name} is taken in this workspace",
            next_action="close some of them, or give a label",
        )
    )


def _label(given: str) -> Label:
    if not is_label(given):
        raise invalid(
            f"{quote_value(given)} is no label",
            next_action=f"a label is matched by {LABEL_PATTERN}",
        )
    return Label(given)
