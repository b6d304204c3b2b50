"""Work that blocks and may meet a full or broken disk, in a worker thread."""

from collections.abc import Callable
from typing import TypeVar

import trio

from engine.core.errors import ExternalError, reason_of

T = TypeVar("T")


async def in_thread(work: Callable[[], T], doing: str) -> T:
    """Do something that blocks and may meet a full or broken disk, and return what comes of it.

    Raises:
        ExternalError: it did; the message begins with `doing`.
    """
    try:
        return await trio.to_thread.run_sync(work)
    except OSError as error:
        raise ExternalError(f"{doing}: {reason_of(error)}") from error
