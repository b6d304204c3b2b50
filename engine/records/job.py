"""The call that creates a run, and the run it asks for."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated

from pydantic import Field, SkipValidation

from engine.core.graph import TaskGraph
from engine.core.ownership import check_independent
from engine.core.quote import name_list
from engine.core.spec import CheckSpec, Kind, RunSpec, TaskSpec
from engine.core.targets import check_targets
from engine.records.check import CheckRequest, decode_checks
from engine.records.config import ConfigLayer, ConfigRequest, decode_config, merge_config
from engine.records.fields import Many, NotNull, Text
from engine.records.request import Request, RequestError
from engine.records.task import Roll, TaskRequest, decode_tasks, unstated_acceptance

MAX_TASKS = 1_000
_NONE: Mapping[str, str] = MappingProxyType({})


class JobRequest(Request):
    """A run: its tasks and what holds for all of them."""

    # What stands inside tasks, checks and config is described here but not looked at yet:
    # `run_spec` does that, in the order in which faults are reported.
    tasks: Annotated[
        Many[SkipValidation[TaskRequest]],
        Field(
            min_length=1,
            max_length=MAX_TASKS,
            description=f"a nonempty array of at most {MAX_TASKS:,} tasks",
        ),
    ]
    background: Annotated[
        bool, Field(description="true to return at once and deliver the result later, or false")
    ] = False
    survive: Annotated[
        bool,
        Field(description="true to go on when Pi exits (with background: true), or false"),
    ] = False
    cwd: Annotated[
        Text | None, NotNull(), Field(description="the path of a folder in a Git working tree")
    ] = None
    approval: Annotated[
        Text | None, NotNull(), Field(description="text that says who approved the changes")
    ] = None
    instructions: Annotated[
        Many[Text], Field(description="an array of texts that every task is shown")
    ] = ()
    config: Annotated[
        SkipValidation[ConfigRequest] | None, NotNull(), Field(description="an object of settings")
    ] = None
    integrated_checks: Annotated[
        Many[SkipValidation[CheckRequest]],
        Field(description="an array of checks, each {id, argv, timeoutMs?}, for the destination"),
    ] = ()
    no_integrated_checks_reason: Annotated[
        Text | None,
        NotNull(),
        Field(description="text that says why there are no integratedChecks"),
    ] = None


def run_spec(
    request: JobRequest,
    kinds: Mapping[str, Kind],
    unavailable: Mapping[str, str] = _NONE,
    *,
    layers: Sequence[ConfigLayer] = (),
    fold_case: bool = False,
) -> RunSpec:
    """Return the run that `request` asks for, every rule checked that needs no repository.

    Args:
        request: its own fields are right; what stands inside them has not been looked at.
        kinds: available definitions.
        unavailable: definitions that are there but cannot be used, with the reason of each.
        layers: configuration that the call's own comes on top of, the weakest first.
        fold_case: whether the checkout's volume takes names that differ in letter case for one.

    Raises:
        UsageError: the first fault: each task in input order, then the graph, then rules about the
            run as a whole, then its configuration.
    """
    tasks = decode_tasks(request.tasks, Roll(kinds, unavailable))
    graph = TaskGraph.build(tasks)
    check_targets(graph, tasks)
    check_independent(graph, tasks, fold_case=fold_case)
    integrated_checks = _check_run(request, tasks)
    own = () if request.config is None else (decode_config(request.config, field="config"),)
    layers = (*layers, *own)
    return RunSpec(
        tasks=tasks,
        approval=request.approval,
        instructions=request.instructions,
        config=merge_config(layers),
        integrated_checks=integrated_checks,
        no_integrated_checks_reason=request.no_integrated_checks_reason,
        background=request.background,
        survive=request.survive,
        cwd=request.cwd,
        notices=(
            *unstated_acceptance(tasks),
            *(notice for layer in layers for notice in layer.notices),
        ),
    )


def _check_run(request: JobRequest, tasks: Sequence[TaskSpec]) -> tuple[CheckSpec, ...]:
    """Return the integrated checks, the rules about the run as a whole checked.

    Raises:
        RequestError: the first fault.
    """
    writers = [task.id for task in tasks if task.kind is Kind.WRITER]
    if writers and request.approval is None:
        which = f"task {writers[0]}" if len(writers) == 1 else f"tasks {name_list(writers)}"
        raise RequestError(
            "", f"approval is missing; {which} may change files, so say who approved that"
        )
    checks = decode_checks(request.integrated_checks, "integratedChecks")
    if request.survive and not request.background:
        raise RequestError("", "survive: true needs background: true; add it or leave survive out")
    return checks
