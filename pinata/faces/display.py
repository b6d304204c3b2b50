"""Whatever shows a run while it works, and how a person ends the run from there."""

import sys
from argparse import Namespace
from collections.abc import Mapping
from typing import Protocol

from engine.system.clock import SystemClock
from pinata.faces.progress import Progress
from pinata.work.observer import Observer


class Display(Observer, Protocol):
    """An observer that writes to the terminal."""

    def request_cancel(self, reason: str) -> bool:
        """Ask the run to end; False when there is none that could be asked."""
        ...

    def end(self) -> None:
        """Say that nothing more happens, which lets `show` return once all is shown."""
        ...

    async def show(self) -> None:
        """Write what is to be shown until `end`."""
        ...


def choose_display(given: Namespace, environment: Mapping[str, str]) -> Display:
    """Return a live view where a person watches a terminal, else one that writes lines.

    Args:
        given: the arguments of a command that carries a run.
        environment: the caller's.
    """
    if not is_watched(given, environment):
        return Progress(as_json=given.json)
    from pinata.faces.live import LiveView  # noqa: PLC0415 - loads rich for terminals alone

    return LiveView(SystemClock())


def is_watched(given: Namespace, environment: Mapping[str, str]) -> bool:
    """Whether a person watches a terminal that can draw, and did not ask for lines.

    Args:
        given: the arguments of a command that shows a run.
        environment: the caller's.
    """
    is_plain = given.json or given.plain or environment.get("TERM", "dumb") == "dumb"
    return not is_plain and sys.stdout is not None and sys.stdout.isatty()
