"""Brings the results of an owner's agents into its conversation, each once, and clears up.

There is one moment at which a result is delivered: when the owner's history holds its message.
Before it nothing is removed, and after it the same result is never told again, whoever died in
between. All else can be repeated.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import trio

from agents.herdsman.artifacts import Provenance, reserve_index, save_artifact
from agents.herdsman.closing import clear_away
from agents.herdsman.config import read_config
from agents.herdsman.controller import Controller
from agents.herdsman.errors import HerdError, broken, busy
from agents.herdsman.identity import GenerationId, Identity, RequestId
from agents.herdsman.look import Look
from agents.herdsman.mailbox import Mailbox
from agents.herdsman.owed import others_of, task_to_deliver
from agents.herdsman.owner import OwnerAwayError
from agents.herdsman.presence import Presence
from agents.herdsman.record import Contents, Result
from agents.herdsman.record_form import UnreadableRecordError
from agents.herdsman.references import highest_index
from agents.herdsman.result_text import Delivery, is_delivered, result_message
from agents.herdsman.runtime import Entry
from agents.herdsman.saved_session import read_managed_session
from agents.herdsman.settlement import completed
from engine.core.errors import PinataError

RETRY_FIRST_S: Final = 0.25
RETRY_LAST_S: Final = 4.0
_LOST_RESULT: Final = (
    "its result is gone and was not delivered; its session and its work are there still"
)
_log = logging.getLogger(f"pinata.{__name__}")


class Deliverer:
    """Delivers for one owner; each agent's result by a task of its own, and by one at a time."""

    def __init__(self, controller: Controller) -> None:
        """Begin without knowing what was delivered: the owner's history tells."""
        self._controller = controller
        # Each with whether a look has shown it again since it was begun, or begun anew.
        self._under_way = controller.endings.deliveries
        self._numbers: dict[GenerationId, int] = {}
        self._reported: dict[GenerationId, str] = {}

    def begin(self, seen: Look, nursery: trio.Nursery) -> None:
        """Begin to deliver whatever a look shows and nobody delivers yet.

        Args:
            seen: the look.
            nursery: in which deliveries go on; it ends with the controller.
        """
        for one in seen.own(self._controller.caller):
            identity = one.state.identity
            if task_to_deliver(one) is None:
                continue
            is_begun = identity.of.generation in self._under_way
            self._under_way[identity.of.generation] = is_begun
            if not is_begun:
                nursery.start_soon(self._carry, identity)

    async def _carry(self, identity: Identity) -> None:
        generation = identity.of.generation
        try:
            await self._insist(identity)
            while self._under_way[generation]:
                # What the look showed may be news to the delivery that was under way.
                self._under_way[generation] = False
                await self._insist(identity)
        finally:
            del self._under_way[generation]
            # Whoever waits until nothing is on its way looks again, though nothing has changed.
            self._controller.premises.signals.ring()

    async def _insist(self, identity: Identity) -> None:
        pause_s = RETRY_FIRST_S
        while not await self._try(identity):
            await trio.sleep(pause_s)
            pause_s = min(2 * pause_s, RETRY_LAST_S)

    async def _try(self, identity: Identity) -> bool:
        """Deliver as far as that goes now; return whether nothing is to be tried again soon."""
        generation = identity.of.generation
        try:
            await self._deliver(identity)
        except OwnerAwayError:
            return True  # begun again when somebody speaks for the owner
        except PinataError as error:
            if self._is_news(generation, str(error)):
                _log.warning("the result of %s: %s", identity.of.label, error)
            return False
        except Exception as error:  # noqa: BLE001 - the other agents go on; tried again
            fault = f"it is not delivered by a fault of pinata: {type(error).__name__}: {error}"
            if self._is_news(generation, fault):
                _log.exception("the result of %s: %s", identity.of.label, fault)
            return False
        self._reported.pop(generation, None)
        return True

    def _is_news(self, generation: GenerationId, fault: str) -> bool:
        """Keep why a result is not delivered; return whether that was not the reason before."""
        self._controller.endings.delivery_errors[generation] = fault
        is_news = self._reported.get(generation) != fault
        self._reported[generation] = fault
        return is_news

    async def _deliver(self, identity: Identity) -> None:
        """Tell the owner of a result, unless it was told, and clear up after the agent.

        Raises:
            OwnerAwayError: nobody is there to be told.
            PinataError: it does not go now.
        """
        mailbox = Mailbox.of_generation(self._controller.premises, identity.of)
        contents = await _read(mailbox)
        if contents is None or contents.state.identity != identity:
            return
        request = task_to_deliver(contents)
        if request is None:
            return
        entries = await self._controller.owner.entries()
        if not is_delivered(contents.state, request, entries):
            result = await mailbox.read_result(request)
            if result is None:
                self._controller.endings.delivery_errors[identity.of.generation] = _LOST_RESULT
                return
            if (result.of, result.request) != (contents.state.of, request):
                raise broken("the result in its mailbox is another agent's")
            await self._tell(contents, result, entries)
        await self._clear_away(mailbox, identity, request)

    async def _tell(self, contents: Contents, result: Result, entries: Sequence[Entry]) -> None:
        state = contents.state
        delivery = await self._about_session(Delivery(state, result))
        if result.status == "completed":
            delivery = await self._kept(delivery, entries)
        seen = await self._controller.look()
        others = others_of(seen.own(self._controller.caller), state)
        message = result_message(replace(delivery, others=others))
        if not await self._controller.owner.tell(delivery.key, message, only_if_idle=False):
            raise busy("the owner's session does not hold it yet")

    async def _kept(self, delivery: Delivery, entries: Sequence[Entry]) -> Delivery:
        """Return the delivery of a text that can be used again, or why it cannot."""
        state, result = delivery.state, delivery.result
        premises, label, generation = (
            self._controller.premises,
            state.of.label,
            state.of.generation,
        )
        assert result.text is not None
        try:
            await save_artifact(premises, result.request, Provenance.of(state), result.text)
            if generation not in self._numbers:
                at_least = highest_index(label, entries) + 1
                self._numbers[generation] = await reserve_index(premises, label, at_least)
        except HerdError as error:
            return replace(delivery, persistence_error=str(error))
        return replace(delivery, index=self._numbers[generation])

    async def _about_session(self, delivery: Delivery) -> Delivery:
        """Return the delivery with what the agent's session tells; it goes on where that fails."""
        try:
            path = Path(delivery.state.session_file)
            session = await trio.to_thread.run_sync(read_managed_session, path)
        except HerdError:
            return delivery
        return replace(
            delivery,
            is_retired=session.is_retired and await self._has_retirement(),
            started_ms=session.entered_ms.get(delivery.result.request),
        )

    async def _has_retirement(self) -> bool:
        """Return whether retired sessions are not continued; whoever continues one asks again."""
        try:
            return (await read_config(self._controller.premises)).context_retirement
        except HerdError:
            return True

    async def _clear_away(self, mailbox: Mailbox, identity: Identity, request: RequestId) -> None:
        """Remove a delivered result, and the agent that produced it.

        Raises:
            HerdError: it cannot be told what is there, or something is at work there.
        """
        seen = await self._controller.look()
        async with mailbox.claim():
            contents = await mailbox.read_exact(identity)
            state = contents.state
            is_lost = seen.observe(state).presence is Presence.LOST
            if state.active == request:
                if not is_lost:
                    return  # the agent is about to note that it is done, and rings then
                state = completed(state, self._controller.premises.clock.now_ms())
                await mailbox.write_state(state)
            if state.completed != request or state.active is not None:
                raise busy("the agent has been given something else")
            # An agent that is gone answers none: what was left for it came after its work.
            if contents.has_pending_request and not is_lost:
                raise busy("a request is in its mailbox")
            await mailbox.remove_result(request)
        await clear_away(self._controller, identity)
        self._controller.endings.delivery_errors.pop(identity.of.generation, None)
        self._numbers.pop(identity.of.generation, None)


async def _read(mailbox: Mailbox) -> Contents | None:
    try:
        return await mailbox.read()
    except UnreadableRecordError as error:
        raise broken(f"its mailbox cannot be read: {error}") from error
