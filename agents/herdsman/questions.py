"""Brings the questions of an owner's agents into its conversation, each once on a branch of it.

A question reaches the exact session that the agent works for, while that is idle, and nobody else.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from agents.herdsman.controller import Controller
from agents.herdsman.errors import HerdError
from agents.herdsman.look import Look
from agents.herdsman.mailbox import Mailbox
from agents.herdsman.record import Ask, State
from agents.herdsman.references import binding_details, import_bindings
from agents.herdsman.result_text import spoken
from agents.herdsman.runtime import BINDING, QUESTION, Entry, Message
from engine.core.errors import CorruptionError


async def deliver_questions(controller: Controller, seen: Look, entries: Sequence[Entry]) -> bool:
    """Tell the owner what its agents ask, as long as it is idle.

    Args:
        controller: of the owner.
        seen: a look at its agents.
        entries: of its history.

    Returns:
        Whether it was told anything; it is not idle any more then.

    Raises:
        OwnerAwayError: nobody speaks for it.
        PinataError: it cannot be told.
    """
    for one in seen.own(controller.caller):
        ask = one.open_ask
        if ask is None or is_asked(one.state, entries):
            continue
        if await _tell(controller, one.state, entries):
            return True
    return False


def is_asked(state: State, entries: Iterable[Entry]) -> bool:
    """Return whether the owner's present branch holds the question that an agent waits with."""
    return any(
        entry.kind == QUESTION and entry.on_branch and entry.details.get("delivery") == _key(state)
        for entry in entries
    )


async def _tell(controller: Controller, known: State, entries: Sequence[Entry]) -> bool:
    """Tell of a question that is still open now; return whether that was done."""
    mailbox = Mailbox.of_generation(controller.premises, known.of)
    try:
        contents = await mailbox.read()
    except CorruptionError:
        return False
    if contents is None or contents.state.identity != known.identity:
        return False
    ask = contents.open_ask
    if ask is None or not controller.owner.is_idle:
        return False
    try:
        for binding in import_bindings(ask.bindings, entries):
            await controller.owner.append(BINDING, binding_details(binding))
    except HerdError as error:
        note = f"\n\nA reference in it cannot be used here: {error}"
        return await _send(controller, contents.state, ask, note)
    return await _send(controller, contents.state, ask, "")


async def _send(controller: Controller, state: State, ask: Ask, note: str) -> bool:
    message = Message(QUESTION, _text(state, ask) + note, _details(state, ask))
    return await controller.owner.tell(_key(state), message, only_if_idle=True)


def _text(state: State, ask: Ask) -> str:
    header = " · ".join(
        (
            "Agent question",
            f"agent={state.of.label}",
            f"definition={state.definition}",
            f"session={state.session}",
        )
    )
    answer = (
        f"The agent waits for your answer: give it with agent_reply, to the agent {state.of.label}."
    )
    return f"{header}\n\n{spoken(ask.question)}\n\n{answer}"


def _details(state: State, ask: Ask) -> dict[str, Any]:
    of = state.of
    return {
        "delivery": _key(state),
        "ask": ask.ask,
        "request": ask.request,
        "generation": of.generation,
        "owner": of.owner,
        "workspace": of.workspace,
        "agentLabel": of.label,
        "handle": of.handle,
        "agentDefinition": state.definition,
        "piSessionId": state.session,
        "piSessionFile": state.session_file,
    }


def _key(state: State) -> str:
    return f"{state.of.generation}/{state.pending_ask}"
