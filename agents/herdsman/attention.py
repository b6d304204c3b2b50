"""Tells an idle owner of an agent that needs it: at most one at a time, as the ladder has it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import trio

from agents.herdsman.controller import Controller
from agents.herdsman.errors import HerdError
from agents.herdsman.health import Facts, Memory, Notice, advance, after, still_holds
from agents.herdsman.health_text import notice_message
from agents.herdsman.look import Look
from agents.herdsman.questions import is_asked
from agents.herdsman.reads import inspect
from agents.herdsman.runtime import Entry

CAPTURE_S: Final = 2.0


class Attention:
    """What an owner was told of its agents by this process; a restart forgets it."""

    def __init__(self, controller: Controller) -> None:
        """Begin with nothing told."""
        self._controller = controller
        self._memory: Memory = {}

    async def attend(self, seen: Look, entries: Sequence[Entry]) -> None:
        """Tell the owner, which is idle, of the agent that has needed it longest, if any does.

        Args:
            seen: a look at its agents.
            entries: of its history.

        Raises:
            OwnerAwayError: nobody speaks for it.
            PinataError: it cannot be told.
        """
        facts = self._facts(seen, entries)
        self._memory, notice = advance(self._memory, facts, seen.now_ms)
        if notice is None:
            return
        capture = await self._capture(notice) if notice.wants_capture else None
        current = await self._current(notice, entries)
        if current is None or not self._controller.owner.is_idle:
            return
        lines = None if capture is None else str(capture["recent_output"]).splitlines()
        message = notice_message(current, recent_output=lines, capture=capture)
        key = self._controller.premises.new_id()
        keyed = replace(message, details={**message.details, "delivery": key})
        if await self._controller.owner.tell(key, keyed, only_if_idle=True):
            self._memory = after(self._memory, notice)

    def _facts(self, seen: Look, entries: Sequence[Entry]) -> list[Facts]:
        # The owner closes them itself: that nothing runs them any more is no news to it.
        closed = self._controller.endings.closed
        return [
            Facts(
                seen.evidence(visible.contents),
                tuple(seen.tools(self._controller.caller, visible)),
                is_asked(visible.contents.state, entries),
            )
            for visible in seen.view(self._controller.caller)
            if visible.is_direct and visible.contents.state.of.generation not in closed
        ]

    async def _capture(self, notice: Notice) -> dict[str, Any] | None:
        """Return what the agent's terminal shows; None where that takes too long, or cannot be."""
        label = notice.facts.evidence.contents.state.of.label
        with trio.move_on_after(CAPTURE_S):
            try:
                return await inspect(self._controller, agent=label)
            except HerdError:
                return None
        return None

    async def _current(self, notice: Notice, entries: Sequence[Entry]) -> Notice | None:
        """Return the notice with what a fresh look shows; None where it holds no longer."""
        seen = await self._controller.look()
        wanted = notice.facts.generation
        facts = next((one for one in self._facts(seen, entries) if one.generation == wanted), None)
        if facts is None or not still_holds(notice, facts, seen.now_ms):
            return None
        return replace(notice, facts=facts)
