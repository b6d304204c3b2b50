"""Blocking work in a worker thread, with the machine's refusals told in the engine's own terms."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import trio

from engine.core.errors import ExternalError, reason_of
from engine.system.faults import point

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


async def in_thread(
    work: Callable[Arguments, Answer], *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Answer:
    """Return what `work` returns in a worker thread, which is waited for even when cancelled.

    Raises:
        ExternalError: the machine refused: disk full, no permission and the like.
    """
    try:
        return await trio.to_thread.run_sync(lambda: work(*args, **kwargs))
    except OSError as error:
        raise refusal(error) from error


def passed(step: str) -> None:
    """Pass the crash point `step` on the loop's own thread.

    Raises:
        ExternalError: a plan of this process says that the step fails here.
    """
    try:
        point(step)
    except OSError as error:
        raise refusal(error) from error


def refusal(error: OSError) -> ExternalError:
    """Return what the machine refused as the engine tells it, with the file if it is known."""
    where = "" if error.filename is None else f": {error.filename!s}"
    return ExternalError(f"{reason_of(error)}{where}")
