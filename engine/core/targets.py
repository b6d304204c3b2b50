"""What reviewers review: rules that need the whole graph."""

from collections.abc import Mapping, Sequence
from typing import assert_never

from engine.core.errors import UsageError
from engine.core.graph import TaskGraph
from engine.core.ids import TaskId
from engine.core.quote import name_list, quote_value
from engine.core.spec import Kind, ReviewBase, ReviewOf, ReviewPr, TaskSpec


class ReviewTargetError(UsageError):
    """A reviewer's target cannot be reviewed in this graph."""

    def __init__(self, task: TaskId, fault: str) -> None:
        self.task = task
        super().__init__(f"task {task}: {fault}")


def check_targets(graph: TaskGraph, specs: Sequence[TaskSpec]) -> None:
    """Refuse reviewers whose target does not exist when they start, or is not all there is.

    Args:
        graph: the graph of `specs`.
        specs: in input order, in which the first fault is looked for.

    Raises:
        ReviewTargetError: the first fault.
    """
    by_id = {spec.id: spec for spec in specs}
    writer_before = _writer_before(graph, by_id)
    for spec in specs:
        match spec.target:
            case ReviewOf(task=task):
                _check_review_of(spec, task, by_id)
            case ReviewBase():
                _check_live(spec, "reviewBase", writer_before)
            case ReviewPr():
                _check_live(spec, "reviewPr", writer_before)
            case None:
                continue
            case _:
                assert_never(spec.target)


def _check_review_of(spec: TaskSpec, task: TaskId, by_id: Mapping[TaskId, TaskSpec]) -> None:
    target = by_id.get(task)
    if target is None or target.kind is not Kind.WRITER:
        writers = [name for name, other in by_id.items() if other.kind is Kind.WRITER]
        fault = "is not a task of this run" if target is None else f"is a {target.kind.value}"
        remedy = (
            f"name a writer: {name_list(writers, last='or')}"
            if writers
            else "this run has no writer"
        )
        raise ReviewTargetError(spec.id, f"reviewOf: {quote_value(task)} {fault}; {remedy}")
    if task not in spec.after:
        raise ReviewTargetError(
            spec.id, f"reviewOf: {quote_value(task)} is not in after; add it there too"
        )


def _check_live(spec: TaskSpec, field: str, writer_before: Mapping[TaskId, TaskId | None]) -> None:
    writer = writer_before[spec.id]
    if writer is not None:
        raise ReviewTargetError(
            spec.id,
            f"{field}: the reviewer waits for writer {writer}, whose change {field} does not show; "
            f"review it with reviewOf {quote_value(writer)}",
        )


def _writer_before(
    graph: TaskGraph, by_id: Mapping[TaskId, TaskSpec]
) -> dict[TaskId, TaskId | None]:
    """Return, per task, a writer that it waits for, directly or not."""
    found: dict[TaskId, TaskId | None] = {}
    for task in graph.order:
        near = graph.predecessors[task]
        direct = (before for before in near if by_id[before].kind is Kind.WRITER)
        beyond = (found[before] for before in near if found[before] is not None)
        found[task] = next(direct, None) or next(beyond, None)
    return found
