"""How calls that carry a run are carried out: by their caller, or beside other runs."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from engine.core.errors import UsageError
from pinata.tools.registry import Answer
from pinata.work.context import Context
from pinata.work.observer import Observer, OpenedRun

Work = Callable[[Context], Awaitable[Answer]]


async def carry(context: Context, work: Work) -> Answer:
    """Do work that carries a run and return its answer; whoever gives it up ends the run.

    A process that owns several runs keeps it until it has ended in order, even when nobody waits.
    """
    if context.runtime is None:
        return await work(context)
    return await context.runtime.start(context.observer, _bound(context, work)).wait_answer()


async def carry_in_background(context: Context, work: Work) -> OpenedRun:
    """Begin work that carries a run, and return the run once it is about to work.

    Raises:
        UsageError: this process ends with the call.
        PinataError: nothing came of it.
    """
    if context.runtime is None:
        raise UsageError(
            "background: this process ends with its run; leave it out, or start the run from a Pi "
            "session or an MCP client"
        )
    return await context.runtime.start_in_background(_bound(context, work)).wait_opened()


def _bound(context: Context, work: Work) -> Callable[[Observer], Awaitable[Answer]]:
    return lambda observer: work(replace(context, observer=observer))
