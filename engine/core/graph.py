"""The graph of a run's tasks: who waits for whom."""

import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.core.errors import UsageError
from engine.core.ids import TaskId
from engine.core.quote import name_list, quote_value
from engine.core.spec import TaskSpec

if TYPE_CHECKING:  # it takes long to load and much memory, and most processes look at no graph
    import networkx as nx

_MOST_SHOWN = 10


def load_library() -> None:
    """Load what graphs are built with; blocks. Otherwise whoever builds the first one waits."""
    importlib.import_module("networkx")


class UnknownPredecessorError(UsageError):
    """A task waits for something that is no other task of its run."""

    def __init__(self, task: TaskId, position: int, named: TaskId, known: Sequence[TaskId]) -> None:
        self.task = task
        self.position = position
        self.named = named
        if named == task:
            fault = "is the task itself; take it out"
        else:
            others = [name for name in known if name != task]
            fault = "is not a task of this run; " + (
                f"the other tasks are {name_list(others)}" if others else "there are no other tasks"
            )
        super().__init__(f"task {task}: after[{position}]: {quote_value(named)} {fault}")


class GraphCycleError(UsageError):
    """Tasks wait for each other in a circle.

    Attributes:
        cycle: each task waits for the one behind it; the first is also the last.
    """

    def __init__(self, cycle: Sequence[TaskId]) -> None:
        self.cycle = tuple(cycle)
        shown = list(self.cycle)
        if len(shown) > _MOST_SHOWN:
            more = len(shown) - _MOST_SHOWN
            shown[_MOST_SHOWN // 2 : -_MOST_SHOWN // 2] = [TaskId(f"({more} more)")]
        super().__init__(
            f"task {self.cycle[0]}: after: the tasks wait for each other: {' -> '.join(shown)} "
            "(each for the next); take one of them out of after"
        )


@dataclass(frozen=True, slots=True)
class TaskGraph:
    """Tasks and their direct dependencies, without a cycle.

    Attributes:
        order: every task, predecessors before dependents; ties keep the input's order.
        predecessors: task to the tasks it waits for, in the order given.
        dependents: task to the tasks that wait for it, in the input's order.
    """

    order: tuple[TaskId, ...]
    predecessors: Mapping[TaskId, tuple[TaskId, ...]]
    dependents: Mapping[TaskId, tuple[TaskId, ...]]

    @classmethod
    def build(cls, specs: Sequence[TaskSpec]) -> "TaskGraph":
        """Return the graph of `specs`, whose ids are unique.

        Raises:
            UnknownPredecessorError: a task waits for itself or for a task that is not there.
            GraphCycleError: tasks wait for each other.
        """
        known = {spec.id: index for index, spec in enumerate(specs)}
        for spec in specs:
            for position, named in enumerate(spec.after):
                if named == spec.id or named not in known:
                    raise UnknownPredecessorError(spec.id, position, named, tuple(known))
        import networkx as nx  # noqa: PLC0415 - see above

        graph: nx.DiGraph[TaskId] = nx.DiGraph()
        graph.add_nodes_from(known)
        graph.add_edges_from((before, spec.id) for spec in specs for before in spec.after)
        try:
            order = tuple(nx.lexicographical_topological_sort(graph, key=known.__getitem__))
        except nx.NetworkXUnfeasible as error:
            raise GraphCycleError(_cycle(graph, known)) from error
        return cls(
            order=order,
            predecessors={spec.id: spec.after for spec in specs},
            dependents={task: tuple(graph.successors(task)) for task in known},
        )

    def ancestors(self, task: TaskId) -> frozenset[TaskId]:
        """Return every task that must succeed before `task` can start."""
        return _reach(self.predecessors, task)


def _cycle(graph: "nx.DiGraph[TaskId]", known: Mapping[TaskId, int]) -> list[TaskId]:
    """Return one cycle, against the arrows, that starts and ends with its earliest task."""
    import networkx as nx  # noqa: PLC0415 - see above

    tasks = [after for _, after in nx.find_cycle(graph)][::-1]
    first = tasks.index(min(tasks, key=known.__getitem__))
    return [*tasks[first:], *tasks[:first], tasks[first]]


def _reach(edges: Mapping[TaskId, Iterable[TaskId]], task: TaskId) -> frozenset[TaskId]:
    seen: set[TaskId] = set()
    waiting = list(edges[task])
    while waiting:
        found = waiting.pop()
        if found not in seen:
            seen.add(found)
            waiting += edges[found]
    return frozenset(seen)
