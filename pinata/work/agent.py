"""Leads one agent through its task: prompt, brief, tools, conversation."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from agents.brief import BriefSpec, WaitingPatch, render_brief
from agents.budget import Budget
from agents.definition import Definition
from agents.dependency import Dependency
from agents.filetools.tool import ToolContext
from agents.guard import READING_TOOLS, Guard
from agents.loop import (
    AgentOutcome,
    AgentSpec,
    BudgetExceeded,
    NoResult,
    ProviderFailed,
    Submitted,
    run_agent,
)
from agents.prompt import system_prompt
from agents.session import SessionHeader, open_session
from agents.submission import SubmissionRules, decode_submission
from agents.toolbox import Toolbox
from engine.core.ids import TaskId
from engine.core.outcome import FailureStage
from engine.core.spec import Kind
from engine.ports import Reporter
from pinata.work.draft import Draft, Ending
from pinata.work.result import SavedResult
from pinata.work.workshop import Workshop, new_entry_id
from worktrees.files import list_files
from worktrees.hygiene import Repository


@dataclass(frozen=True, slots=True)
class Assignment:
    """One agent's place and brief.

    Attributes:
        place: where it works; its tools start there.
        values: what a script may refer to.
    """

    place: Repository
    brief: BriefSpec
    rules: SubmissionRules
    values: dict[str, str]


async def lead(
    workshop: Workshop, draft: Draft, reporter: Reporter, assignment: Assignment
) -> Ending | None:
    """Have the agent do its task; None when it handed in a result, which then is in `draft`.

    A writer that stops without a result is asked once more, with tools that only read, to report
    what it did.
    """
    run = workshop.run
    definition = run.definition(draft.task.id)
    model = run.models[draft.task.id].open(draft.attempt, assignment.values)
    header = SessionHeader(
        str(uuid.uuid4()), str(assignment.place.root), run.models[draft.task.id].choice
    )
    path = run.folder.transcript_file(draft.attempt)
    draft.transcript = str(path)
    draft.stage = FailureStage.PROCESS
    async with open_session(path, header, clock=run.context.clock, next_id=new_entry_id) as session:
        converse = partial(
            run_agent,
            model=model,
            session=session,
            budget=draft.budget,
            note=reporter.note,
        )
        outcome = await converse(
            _spec(draft, definition, definition.tools, assignment),
            toolbox=_toolbox(workshop, draft, assignment.place, definition.tools),
        )
        if isinstance(outcome, NoResult) and draft.task.kind is Kind.WRITER:
            retry = replace(assignment, brief=replace(assignment.brief, result_only=True))
            outcome = await converse(
                _spec(draft, definition, READING_TOOLS, retry),
                toolbox=_toolbox(workshop, draft, assignment.place, READING_TOOLS),
            )
    return _ending(draft, outcome)


def _ending(draft: Draft, outcome: AgentOutcome) -> Ending | None:
    match outcome:
        case Submitted(submission=submission):
            draft.submission = submission
            draft.stage = FailureStage.RESULT
            return None
        case NoResult():
            return Ending.failed("the agent handed in no result", FailureStage.RESULT)
        case ProviderFailed(message=message):
            return Ending.failed(f"the model failed: {message}", FailureStage.PROCESS)
        case BudgetExceeded(message=message):
            return Ending.failed(message, FailureStage.PROCESS)


def _spec(
    draft: Draft, definition: Definition, tools: Sequence[str], assignment: Assignment
) -> AgentSpec:
    return AgentSpec(
        attempt=draft.attempt,
        system=system_prompt(definition, tools, codemode=False),
        brief=render_brief(assignment.brief),
        rules=assignment.rules,
    )


def _toolbox(workshop: Workshop, draft: Draft, place: Repository, tools: Sequence[str]) -> Toolbox:
    environment = workshop.environment
    home = environment.get("HOME") or None
    guard = Guard(
        kind=draft.task.kind,
        root=place.root,
        ownership=draft.task.ownership,
        tools=tuple(tools),
        fold_case=workshop.run.record.fold_case,
        home=home,
    )
    context = ToolContext(
        root=place.root,
        env=environment,
        mark=workshop.mark(draft.attempt),
        list_files=partial(list_files, place),
        shell=workshop.shell,
    )
    return Toolbox(tools, guard, context)


def new_budget(workshop: Workshop) -> Budget:
    """Return the budget of an attempt: the run's limits, and what is left of its dollars."""
    limits = workshop.run.spec.config.limits
    left = limits.cost_usd
    if left is not None:
        spent = sum(result.usage.cost_usd or 0.0 for result in workshop.results.values())
        left = max(0.0, left - spent)
    return Budget(max_turns=limits.max_turns, max_tool_calls=limits.max_tool_calls, cost_usd=left)


def dependencies(workshop: Workshop, draft: Draft) -> tuple[Dependency, ...]:
    """Return what the brief says about the direct predecessors, in the order of `after`."""
    return tuple(_dependency(workshop, workshop.results[task]) for task in draft.task.after)


def _dependency(workshop: Workshop, result: SavedResult) -> Dependency:
    kind = workshop.run.spec.task(result.id).kind
    submission = result.submission
    return Dependency(
        task=result.id,
        agent=result.agent,
        status=result.status,
        result_path=str(workshop.run.folder.result_file(result.id)),
        submission=None if submission is None else decode_submission(submission, kind),
        summary=result.reason or "",
        changed_files=(
            None
            if result.artifact is None
            else tuple(change.path for change in result.artifact.changes)
        ),
    )


def waiting_patches(workshop: Workshop, task: TaskId) -> tuple[WaitingPatch, ...]:
    """Return the changes that a reader of the live checkout waited for and does not see there."""
    found = []
    for writer in workshop.writers_before(task):
        artifact = workshop.results[writer].artifact
        if artifact is not None and artifact.patch is not None:
            found.append(WaitingPatch(writer, str(Path(artifact.patch.path))))
    return tuple(found)
