"""The refusal to speak of a task that a run does not have."""

from collections.abc import Iterable

from engine.core.errors import UsageError
from engine.core.quote import name_list, quote_value


class UnknownTaskError(UsageError):
    """A run has no task of that name.

    Attributes:
        task: what was asked for.
        known: what there is.
    """

    def __init__(self, task: str, known: Iterable[str]) -> None:
        self.task = task
        self.known = tuple(known)
        there = name_list(self.known)
        super().__init__(f"task: {quote_value(task)} is not a task of this run; it has {there}")
