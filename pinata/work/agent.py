"""Leads one agent through its task: prompt, brief, tools, conversation."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from agents.backends.attempt import RESULT_ONLY_TOOLS, AttemptSpec
from agents.brief import BriefSpec, WaitingPatch, render_brief
from agents.budget import Budget
from agents.definition import Definition
from agents.dependency import Dependency
from agents.filetools.tool import ToolContext
from agents.loop import (
    AgentLost,
    AgentOutcome,
    BudgetExceeded,
    NoResult,
    ProviderFailed,
    Submitted,
)
from agents.models.pi_files import key_files
from agents.submission import SubmissionRules, decode_submission
from engine.core.ids import TaskId
from engine.core.outcome import FailureStage
from engine.core.quote import one_line
from engine.core.spec import Kind, RunConfig
from engine.ports import Reporter
from pinata.work.backends import Opening, open_agent
from pinata.work.draft import Draft, Ending
from pinata.work.result import SavedResult
from pinata.work.workshop import Workshop
from worktrees.files import list_files
from worktrees.hygiene import Repository

# Of what was wrong with a result, in the reason why there is none.
_MOST_SAID = 300


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
    path = run.folder.transcript_file(draft.attempt)
    draft.transcript = str(path)
    draft.stage = FailureStage.PROCESS
    attempt = AttemptSpec(
        attempt=draft.attempt,
        definition=definition,
        rules=assignment.rules,
        context=_context(workshop, draft, assignment.place),
        ownership=draft.task.ownership,
        fold_case=run.record.fold_case,
        codemode=has_codemode(definition, run.spec.config),
    )
    opening = Opening(workshop, draft, reporter, attempt, path, assignment.values)
    async with open_agent(opening) as agent:
        outcome = await agent.run(render_brief(assignment.brief))
        if isinstance(outcome, NoResult) and draft.task.kind is Kind.WRITER:
            refused = outcome.refused
            retry = replace(assignment.brief, result_only=True)
            outcome = await agent.run(render_brief(retry), RESULT_ONLY_TOOLS)
            if isinstance(outcome, NoResult) and not outcome.refused:
                outcome = replace(outcome, refused=refused)
    draft.steers.close()
    return _ending(draft, outcome)


def _ending(draft: Draft, outcome: AgentOutcome) -> Ending | None:
    match outcome:
        case Submitted(submission=submission):
            draft.submission = submission
            draft.stage = FailureStage.RESULT
            return None
        case NoResult(refused=refused):
            said = f"valid result; last: {one_line(refused, _MOST_SAID)}" if refused else "result"
            return Ending.failed(f"the agent handed in no {said}", FailureStage.RESULT)
        case ProviderFailed(message=message):
            return Ending.failed(f"the model failed: {message}", FailureStage.PROCESS)
        case BudgetExceeded(message=message) | AgentLost(message=message):
            return Ending.failed(message, FailureStage.PROCESS)


def has_codemode(definition: Definition, config: RunConfig) -> bool:
    """Whether an agent can call its tools from scripts; its definition has the last word."""
    return config.codemode if definition.codemode is None else definition.codemode


def _context(workshop: Workshop, draft: Draft, place: Repository) -> ToolContext:
    root = workshop.roots.get(place.root)
    return ToolContext(
        root=place.root,
        env=workshop.environment,
        mark=workshop.mark(draft.attempt),
        list_files=partial(list_files, place),
        shell=workshop.shell,
        identity=None if root is None else (root.device, root.inode),
        secrets=key_files(workshop.run.context.agent_dir),
    )


def new_budget(workshop: Workshop) -> Budget:
    """Return the budget of an attempt: the run's limits, and what is left of its dollars."""
    limits = workshop.run.spec.config.limits
    return Budget(
        max_turns=limits.max_turns, max_tool_calls=limits.max_tool_calls, purse=workshop.purse
    )


def dependencies(workshop: Workshop, draft: Draft) -> tuple[Dependency, ...]:
    """Return what the brief says about the direct predecessors, in the order of `after`."""
    return tuple(
        _dependency(workshop, workshop.results[task], draft.task.kind) for task in draft.task.after
    )


def _dependency(workshop: Workshop, result: SavedResult, reader: Kind) -> Dependency:
    kind = workshop.run.spec.task(result.id).kind
    path = str(workshop.run.folder.result_file(result.id))
    submission = result.submission
    return Dependency(
        task=result.id,
        agent=result.agent,
        status=result.status,
        # A writer is not told where the user's checkout lies: agents that know have worked there.
        result_path=None if reader is Kind.WRITER else path,
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
