"""Movers that let something happen in the middle of an apply."""

import os
from collections.abc import Callable

from worktrees.exchange import KernelMover


class Died(BaseException):
    """Stands for the death of the process: nothing that mends or reports may catch it."""


class Interrupted(KernelMover):
    """Runs `before` or `after` around the moves of one name, each once.

    Args:
        name: the last component of the path that is moved.
        before: what somebody does just before.
        after: what somebody does just after.
    """

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

    def move(self, source: int, name: bytes, target: int, new_name: bytes) -> None:
        """Move, with what happens around it."""
        self._around(
            lambda: super(Interrupted, self).move(source, name, target, new_name), name, new_name
        )

    def swap(self, folder: int, name: bytes, other: int, other_name: bytes) -> None:
        """Swap, with what happens around it."""
        self._around(lambda: super(Interrupted, self).swap(folder, name, other, other_name), name)

    def _around(self, work: Callable[[], None], *names: bytes) -> None:
        due = self._name in names
        if due and (before := self._before):
            self._before = None
            before()
        work()
        if due and (after := self._after):
            self._after = None
            after()


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
