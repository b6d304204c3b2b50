"""Task graphs from a few words."""

from collections.abc import Mapping, Sequence

from engine.core.graph import TaskGraph
from engine.core.ids import TaskId
from engine.core.spec import Kind, TaskSpec


def graph_of(edges: Mapping[str, Sequence[str]]) -> TaskGraph:
    """Return the graph in which each task of `edges` comes after the tasks named for it."""
    return TaskGraph.build(
        [
            TaskSpec(
                id=TaskId(name),
                agent="scout",
                kind=Kind.READER,
                text=f"do {name}",
                after=tuple(map(TaskId, after)),
            )
            for name, after in edges.items()
        ]
    )


def independent(count: int) -> TaskGraph:
    """Return `count` tasks, `t-0` and so on, that do not wait for each other."""
    return graph_of({f"t-{number}": () for number in range(count)})


def chain(length: int) -> TaskGraph:
    """Return `length` tasks, `t-0` and so on, each after the one before it."""
    return graph_of(
        {f"t-{number}": (f"t-{number - 1}",) if number else () for number in range(length)}
    )
