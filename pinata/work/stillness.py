"""Whether the live checkout stood still while an agent read it.

It is a person's and may change meanwhile. That is no fault, but whoever reads the answer has to
know.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import trio

from engine.core.errors import PinataError
from engine.core.events import CheckoutChanged
from engine.ports import Reporter
from pinata.work.draft import Draft, Ending
from pinata.work.workshop import Workshop
from worktrees.state import StateTriple


@dataclass(frozen=True, slots=True)
class Seen:
    """What an agent can see of a checkout; what is only staged is no part of it."""

    head: str | None
    content_tree: str


async def while_watched(
    workshop: Workshop,
    draft: Draft,
    reporter: Reporter,
    answer: Callable[[], Awaitable[Ending]],
    since: Seen | None = None,
) -> Ending:
    """Return what `answer` returns; `draft` says if the checkout changed meanwhile.

    Args:
        workshop: the run's.
        draft: of the attempt; a failure that `answer` raises is filed at its stage.
        reporter: hears of a change.
        answer: has the agent do its work.
        since: what the checkout held at an earlier moment, from which on changes count.
    """
    start, end = _Look(), _Look()
    async with trio.open_nursery() as nursery:
        # The agent does not wait for this: the first answer of a model takes longer.
        nursery.start_soon(start.take, workshop)
        try:
            ending = await answer()
        except PinataError as error:
            ending = Ending.failed(str(error), draft.stage)
    await end.take(workshop)
    await _compare(draft, reporter, start, end, since)
    return ending


@dataclass(slots=True)
class _Look:
    """A measurement of the checkout, or why there is none."""

    seen: Seen | None = None
    fault: str | None = None

    async def take(self, workshop: Workshop) -> None:
        try:
            self.seen = _seen(await workshop.checkout.take())
        except PinataError as error:
            self.fault = str(error)


def _seen(state: StateTriple) -> Seen:
    return Seen(state.head, state.content_tree)


async def _compare(
    draft: Draft, reporter: Reporter, start: _Look, end: _Look, since: Seen | None
) -> None:
    """Put it into `draft` whether the checkout changed."""
    if start.seen is None or end.seen is None:
        draft.notices.append(
            f"whether the checkout changed meanwhile is unknown: {start.fault or end.fault}"
        )
        return
    draft.checkout_changed = start.seen != end.seen or since not in (None, start.seen)
    if draft.checkout_changed:
        await reporter.record(CheckoutChanged(draft.attempt))
