"""Everything that an owner's side of the herd does by itself, for as long as its process lives.

It looks when something has changed, and every half a minute while there are agents, or mailboxes
that cannot be read and may be those of some. Without any it has no timer.
"""

import logging
from typing import Final

import trio

from agents.herdsman.attention import Attention
from agents.herdsman.closing import finish_closing
from agents.herdsman.controller import Controller
from agents.herdsman.delivery import Deliverer
from agents.herdsman.look import Look
from agents.herdsman.owner import OwnerAwayError
from agents.herdsman.questions import deliver_questions
from agents.herdsman.signals import Listener
from engine.core.errors import PinataError
from engine.system.nursery import open_flat_nursery

SCAN_EVERY_S: Final = 30.0
REST_SHARE: Final = 3.0
LONGEST_REST_S: Final = 1.0
_log = logging.getLogger(f"pinata.{__name__}")


async def keep(controller: Controller) -> None:
    """Deliver, clear up, ask and attend; never returns.

    What a dead process left is found by the first look, like everything else.
    """
    signals, session = controller.premises.signals, controller.caller.session
    listener = signals.listen(session)
    try:
        async with open_flat_nursery() as nursery:
            nursery.start_soon(_follow, controller, listener)
            await _Keeper(controller, nursery).run(listener)
    finally:
        signals.leave(session, listener)


async def _follow(controller: Controller, listener: Listener) -> None:
    """Have the keeper look whenever the owner changes; never returns."""
    while True:
        await controller.owner.wait_changed()
        listener.hear()


class _Keeper:
    """One owner's keeper."""

    def __init__(self, controller: Controller, nursery: trio.Nursery) -> None:
        self._controller = controller
        self._nursery = nursery
        self._deliverer = Deliverer(controller)
        self._attention = Attention(controller)
        self._reported = ""

    async def run(self, listener: Listener) -> None:
        while True:
            began_s = trio.current_time()
            has_agents = await self._look()
            if has_agents:
                # However much happens, and however many look, looking takes a part of the time.
                took_s = trio.current_time() - began_s
                await trio.sleep(min(REST_SHARE * took_s, LONGEST_REST_S))
            with trio.move_on_after(SCAN_EVERY_S if has_agents else float("inf")):
                await listener.wait()

    async def _look(self) -> bool:
        """Look once, and do what follows; return whether there may be agents."""
        try:
            return await self._look_once()
        except Exception as error:  # noqa: BLE001 - the host goes on; the next look may well succeed
            fault = f"by a fault of pinata: {type(error).__name__}: {error}"
            if self._is_news(fault):
                _log.exception("cannot look after the agents, %s", fault)
            return True

    async def _look_once(self) -> bool:
        try:
            # What is removed by it is not looked at as an agent any more.
            await finish_closing(self._controller)
            seen = await self._controller.look()
        except PinataError as error:
            self._report(error)
            return True
        caller = self._controller.caller
        if not seen.own(caller):
            # Nobody rings once a mailbox can be read again.
            return seen.may_own_hidden(caller)
        self._deliverer.begin(seen, self._nursery)
        if self._controller.owner.is_idle:
            try:
                await self._attend(seen)
            except OwnerAwayError:
                return True  # looked at again when somebody speaks for it
            except PinataError as error:
                self._report(error)
        return True

    async def _attend(self, seen: Look) -> None:
        entries = await self._controller.owner.entries()
        if not await deliver_questions(self._controller, seen, entries):
            await self._attention.attend(seen, entries)

    def _report(self, error: PinataError) -> None:
        if self._is_news(str(error)):
            _log.warning("cannot look after the agents: %s", error)

    def _is_news(self, fault: str) -> bool:
        is_news, self._reported = fault != self._reported, fault
        return is_news
