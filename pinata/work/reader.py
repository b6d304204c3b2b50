"""Carries out a reader's attempt: it looks at the live checkout and answers."""

from functools import partial

from agents.brief import BriefSpec, Workspace, WorkspaceKind
from agents.submission import SubmissionRules
from engine.core.outcome import FailureStage, Status
from engine.core.spec import Kind
from engine.ports import Reporter
from pinata.work.agent import Assignment, dependencies, lead, waiting_patches
from pinata.work.draft import Draft, Ending
from pinata.work.proving import run_evidence_checks
from pinata.work.stillness import while_watched
from pinata.work.workshop import Workshop


async def read(workshop: Workshop, draft: Draft, reporter: Reporter) -> Ending:
    """Have the reader read, and return how its attempt ends; `draft` says if the place changed."""
    return await while_watched(
        workshop, draft, reporter, partial(_answer, workshop, draft, reporter)
    )


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
