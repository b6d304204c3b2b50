"""What a Pi that is a managed agent does now, by what it says, and how it came to rest."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import trio

from agents.herdsman.pi_heard import (
    Answered,
    CompactionBegan,
    CompactionEnded,
    DialogOpened,
    Measured,
    RunBegan,
    Settled,
)
from agents.herdsman.pi_outbox import Outbox
from agents.herdsman.runtime import Attendant, Ended, Lifecycle

Lived: TypeAlias = (
    RunBegan | Answered | Measured | DialogOpened | CompactionBegan | CompactionEnded | Settled
)


class PiLife:
    """Between the beginning of a run and the record that it has settled the child works."""

    def __init__(self, outbox: Outbox, tidied: Callable[[str], str]) -> None:
        """Begin with a child at rest.

        Args:
            outbox: a message in it is work to come.
            tidied: makes a sentence of a provider's fit to be told.
        """
        self._outbox = outbox
        self._tidied = tidied
        self._is_running = False
        self._dialogs: dict[str, float] = {}
        self._end = Ended()
        self._shortened: trio.Event | None = None
        self._shortenings = 0
        self._rested, self._rests = trio.open_memory_channel[Ended](math.inf)  # it rests seldom
        self._held: Ended | None = None
        self._is_held = trio.Event()

    @property
    def lifecycle(self) -> Lifecycle:
        """What the child does now."""
        now = trio.current_time()
        if any(until > now for until in self._dialogs.values()):
            return Lifecycle.BLOCKED
        is_working = self._is_running or bool(self._outbox.messages)
        return Lifecycle.WORKING if is_working else Lifecycle.IDLE

    @property
    def is_running(self) -> bool:
        """Whether the child works on something; it asks for messages by itself then."""
        return self._is_running

    @property
    def dialogs(self) -> tuple[str, ...]:
        """The ids of dialogs that others have opened."""
        return tuple(self._dialogs)

    def hear(self, heard: Lived) -> None:
        """Take note of what the child says."""
        match heard:
            case RunBegan():
                self._is_running, self._held = True, None
            case Answered(fault=fault, is_aborted=is_aborted):
                told = None if fault is None or is_aborted else self._tidied(fault)
                self._end = replace(self._end, fault=told)
            case Measured(usage=usage):
                self._end = replace(self._end, usage=usage)
            case DialogOpened(id=id_, limit_s=limit_s):
                wait_s = math.inf if limit_s is None else limit_s
                self._dialogs[id_] = trio.current_time() + wait_s
            case CompactionBegan(is_manual=True) if self._shortened is None:
                self._shortened = trio.Event()
            case CompactionBegan():
                pass
            case CompactionEnded():
                if self._shortened is not None:
                    self._shortened.set()
                    self._shortenings += 1
                self._shortened = None
            case Settled(was_aborted=was_aborted):
                self._settle(replace(self._end, was_aborted=was_aborted))

    def fail(self, fault: str) -> None:
        """Note that messages which were under way will not enter; they are the work no more."""
        if not self._is_running:
            self._settle(replace(self._end, fault=fault))

    def close_dialogs(self) -> None:
        """Note that nobody waits for a person any more."""
        self._dialogs.clear()

    def release(self) -> None:
        """Tell of a rest that was held back for a message which is not going to enter."""
        if self._held is not None and not self._outbox.messages:
            held, self._held = self._held, None
            self._rested.send_nowait(held)

    async def wait_held(self) -> None:
        """Return once the child rests although there are messages for it under way."""
        await self._is_held.wait()
        self._is_held = trio.Event()

    async def wait_shortened(self) -> None:
        """Return when nobody shortens the conversation by hand: nothing is taken in meanwhile."""
        while self._shortened is not None:
            await self._shortened.wait()

    @property
    def shortenings(self) -> int:
        """How often somebody began or ended to shorten the conversation by hand."""
        return 2 * self._shortenings + (self._shortened is not None)

    async def tell_rests(self, attendant: Attendant) -> None:
        """Tell the attendant each time that the child came to rest, until cancelled."""
        async for ended in self._rests:
            await attendant.came_to_rest(ended)

    def _settle(self, ended: Ended) -> None:
        self._is_running = False
        self._end = Ended()
        self.close_dialogs()
        # With a message under way it is no rest: the child is about to begin again.
        if self._outbox.messages:
            self._held = ended
            self._is_held.set()
        else:
            self._held = None
            self._rested.send_nowait(ended)
