"""A nursery out of which an error comes as it was raised."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import trio

from engine.core.errors import PinataError


@asynccontextmanager
async def open_flat_nursery() -> AsyncIterator[trio.Nursery]:
    """Open a nursery whose one error, of its block or of a task, comes out without a group.

    Of several at once the first comes out if pinata raised all of them on purpose; if one is a bug,
    the group does, so that nothing hides it. Being cancelled beside an error is not one.
    """
    told: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            yield nursery
    except BaseExceptionGroup as group:
        told = _one_of(list(_leaves(group)))
        if told is None:
            raise
    if told is not None:
        context = told.__context__
        try:
            raise told
        finally:
            # The group, and what it did to the block, say nothing about how the error came about.
            told.__context__ = context


def _one_of(errors: list[BaseException]) -> BaseException | None:
    """Return the error that stands for all, or None when none can."""
    real = [error for error in errors if not isinstance(error, trio.Cancelled)]
    if len(real) > 1 and not all(isinstance(error, PinataError) for error in real):
        return None
    return (real or errors)[0]


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
