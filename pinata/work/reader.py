"""Carries out a reader's attempt: it looks at the live checkout and answers.

The checkout is a person's and may change meanwhile. That is no fault, but whoever reads the answer
has to know.
"""

from dataclasses import dataclass

import trio

from agents.brief import BriefSpec, Workspace, WorkspaceKind
from agents.submission import SubmissionRules
from engine.core.errors import PinataError
from engine.core.events import CheckoutChanged
from engine.core.outcome import FailureStage, Status
from engine.core.spec import Kind
from engine.ports import Reporter
from pinata.work.agent import Assignment, dependencies, lead, waiting_patches
from pinata.work.draft import Draft, Ending
from pinata.work.proving import run_evidence_checks
from pinata.work.workshop import Workshop
from worktrees.state import StateTriple


async def read(workshop: Workshop, draft: Draft, reporter: Reporter) -> Ending:
    """Have the reader read, and return how its attempt ends; `draft` says if the place changed."""
    start, end = _Look(), _Look()
    async with trio.open_nursery() as nursery:
        # The agent does not wait for this: the first answer of a model takes longer.
        nursery.start_soon(start.take, workshop)
        try:
            ending = await _answer(workshop, draft, reporter)
        except PinataError as error:
            ending = Ending.failed(str(error), draft.stage)
    await end.take(workshop)
    await _compare(draft, reporter, start, end)
    return ending


@dataclass(slots=True)
class _Look:
    """A measurement of the checkout, or why there is none."""

    state: StateTriple | None = None
    fault: str | None = None

    async def take(self, workshop: Workshop) -> None:
        try:
            self.state = await workshop.checkout.take()
        except PinataError as error:
            self.fault = str(error)


async def _compare(draft: Draft, reporter: Reporter, start: _Look, end: _Look) -> None:
    """Put it into `draft` whether the checkout changed; what is only staged is no change."""
    if start.state is None or end.state is None:
        draft.notices.append(
            f"whether the checkout changed meanwhile is unknown: {start.fault or end.fault}"
        )
        return
    draft.checkout_changed = _seen(start.state) != _seen(end.state)
    if draft.checkout_changed:
        await reporter.record(CheckoutChanged(draft.attempt))


def _seen(state: StateTriple) -> tuple[str | None, str]:
    return state.head, state.content_tree


async def _answer(workshop: Workshop, draft: Draft, reporter: Reporter) -> Ending:
    place = workshop.run.repository
    definition = workshop.run.definition(draft.task.id)
    brief = BriefSpec(
        task=draft.task,
        workspace=Workspace(WorkspaceKind.LIVE_CHECKOUT, str(place.root)),
        run_instructions=workshop.run.spec.instructions,
        dependencies=dependencies(workshop, draft),
        waiting_patches=waiting_patches(workshop, draft.task.id),
    )
    rules = SubmissionRules(Kind.READER, require_sources=definition.require_sources)
    values = {"workspace": str(place.root)}
    ending = await lead(workshop, draft, reporter, Assignment(place, brief, rules, values))
    if ending is not None:
        return ending
    assert draft.submission is not None
    ending = Ending.said(draft.submission)
    if ending.status is not Status.SUCCEEDED:
        return ending
    draft.stage = FailureStage.VERIFICATION
    return await run_evidence_checks(workshop, draft, reporter, place) or ending
