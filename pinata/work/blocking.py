"""Work that blocks and may meet a full or broken disk, in a worker thread."""

from collections.abc import Callable

import trio

from engine.core.errors import ExternalError


async def in_thread(work: Callable[[], object], doing: str) -> None:
    """Do something that blocks and may meet a full or broken disk.

    Raises:
        ExternalError: it did; the message begins with `doing`.
    """
    try:
        await trio.to_thread.run_sync(work)
    except OSError as error:
        raise ExternalError(f"{doing}: {error.strerror or error}") from error
