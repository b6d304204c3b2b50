"""Whether a receipt still speaks of the checkout as it is; nothing is written to find out."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import trio

from engine.core.errors import PinataError
from pinata.work.receipt import Receipt, SavedState
from worktrees.discovery import discover
from worktrees.state import look

Freshness = Literal["current", "historical", "unknown"]


async def freshness(root: Path, environment: Mapping[str, str], receipt: Receipt) -> Freshness:
    """Return `current` while HEAD, content and index are what the receipt was made for.

    `unknown` when that cannot be found out, for example because the checkout was moved away.

    Args:
        root: the checkout.
        environment: the caller's.
        receipt: about that checkout.
    """
    try:
        repository = await discover(root, environment)
        if repository.root != root:
            return "unknown"
        folder = await trio.to_thread.run_sync(
            lambda: tempfile.TemporaryDirectory(prefix="pinata-", ignore_cleanup_errors=True)
        )
        try:
            now = await look(repository, Path(folder.name))
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(folder.cleanup)
    except (PinataError, OSError):
        return "unknown"
    return "current" if SavedState.of(now) == receipt.before else "historical"
