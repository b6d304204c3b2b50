"""Movers that let something happen in the middle of an apply."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from worktrees import exchange
from worktrees.exchange import KernelMover, LinkMover, Mover, choose_mover


def forget_renameat2(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the C library be one without renameat2(2) until the test ends."""
    monkeypatch.setattr(exchange, "_RENAMEAT2", None)


class Died(BaseException):
    """Stands for the death of the process: nothing that mends or reports may catch it."""


class Interrupted:
    """Runs `before` or `after` around the moves of one name, each once.

    Args:
        name: the last component of the path that is moved.
        before: what somebody does just before.
        after: what somebody does just after.
    """

    in_one_step = True

    def __init__(
        self,
        name: bytes,
        *,
        before: Callable[[], object] | None = None,
        after: Callable[[], object] | None = None,
    ) -> None:
        self._name = name
        self._before = before
        self._after = after
        self._mover: Mover | None = None

    def take(self, folder: int, name: bytes, slots: int, slot: bytes) -> None:
        """Take, with what happens around it."""
        self._around(name, slots, lambda mover: mover.take(folder, name, slots, slot))

    def put(self, slots: int, slot: bytes, folder: int, name: bytes) -> None:
        """Put, with what happens around it."""
        self._around(name, slots, lambda mover: mover.put(slots, slot, folder, name))

    def swap(self, folder: int, name: bytes, slots: int, slot: bytes) -> None:
        """Swap, with what happens around it."""
        self._around(name, slots, lambda mover: mover.swap(folder, name, slots, slot))

    def _around(self, name: bytes, slots: int, work: Callable[[Mover], None]) -> None:
        if self._mover is None:
            self._mover = choose_mover(Path(f"/proc/self/fd/{slots}"))
        due = name == self._name
        if due and (before := self._before):
            self._before = None
            before()
        work(self._mover)
        if due and (after := self._after):
            self._after = None
            after()


class InTheGap(LinkMover):
    """Runs `during` once, while the file that is being replaced is absent."""

    def __init__(self, during: Callable[[], object]) -> None:
        self._during: Callable[[], object] | None = during
        self._is_swapping = False

    def swap(self, folder: int, name: bytes, slots: int, slot: bytes) -> None:
        """Swap, with what happens in between."""
        self._is_swapping = True
        try:
            super().swap(folder, name, slots, slot)
        finally:
            self._is_swapping = False

    def put(self, slots: int, slot: bytes, folder: int, name: bytes) -> None:
        """Put, after what happens in between."""
        if self._is_swapping and (during := self._during):
            self._during = None
            during()
        super().put(slots, slot, folder, name)


def die() -> None:
    """End as a killed process would."""
    raise Died


class Refusing(KernelMover):
    """Fails each swap with one system error."""

    def __init__(self, code: int) -> None:
        self._code = code

    def swap(self, folder: int, name: bytes, other: int, other_name: bytes) -> None:
        """Raise."""
        raise OSError(self._code, os.strerror(self._code), "disk")
