"""Where a run stands, kept so that a turn of the loop costs what changed and not the whole graph.

The state belongs to the loop alone and changes only in `engine.core.reduce`.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Protocol

from engine.core.ids import AttemptId, TaskId
from engine.core.outcome import Status, Stop, Unstarted
from engine.core.ready import ReadyTasks


class Graph(Protocol):
    """What scheduling needs to know of a task graph; `engine.core.graph` builds one."""

    @property
    def order(self) -> Sequence[TaskId]:
        """Every task once, in the order that ties are broken by."""
        ...

    @property
    def predecessors(self) -> Mapping[TaskId, Sequence[TaskId]]:
        """The direct predecessors of each task."""
        ...

    @property
    def dependents(self) -> Mapping[TaskId, Sequence[TaskId]]:
        """The tasks that name each task as a direct predecessor."""
        ...


def downstream(graph: Graph, *names: TaskId) -> tuple[TaskId, ...]:
    """Return every task that directly or indirectly depends on one of `names`, in graph order."""
    found: set[TaskId] = set()
    waiting = [each for name in names for each in graph.dependents[name]]
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            waiting += graph.dependents[each]
    return tuple(each for each in graph.order if each in found)


@dataclass(slots=True)
class TaskState:
    """Where one task stands.

    Attributes:
        queued: whether the run has queued the task at all; until then nothing happens to it.
        number: the newest attempt; 0 before the first.
        waiting: direct predecessors that have not succeeded.
        stop: the stop that was announced to the running attempt.
        spent_before_usd: what the whole run had spent when the running attempt started.
        repairs: how many repairs of it count: those whose agent was begun.
        in_repair: whether a repair was asked for that does not count yet.
        lost: whether its newest attempt died with its process.
    """

    waiting: int
    status: Status = Status.QUEUED
    queued: bool = False
    number: int = 0
    stop: Stop | None = None
    spent_before_usd: float = 0.0
    repairs: int = 0
    in_repair: bool = False
    lost: bool = False


class RunState:
    """Where a run stands.

    Attributes:
        started: whether the run has begun; nothing is decided before.
        settled: how the run ended; None while it has not.
        stop: why the whole run is being ended; the first cause stays.
        tasks: one state per task of the graph.
        ready: tasks that may start, in the order in which they became ready.
        running: the running attempt of each task that has one.
        doomed: tasks that are to settle without being started.
        to_stop: running tasks whose stop has not been announced yet.
        reopening: final tasks that a repair is about to queue once more.
        unsettled: how many tasks are not final.
        spending: what running attempts have spent so far, for those that have spent anything.
        settled_usd: what all ended attempts spent, repeated tries included.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.started = False
        self.settled: Status | None = None
        self.stop: Stop | None = None
        self.tasks = {task: TaskState(len(graph.predecessors[task])) for task in graph.order}
        self.ready = ReadyTasks()
        # Ordered dictionaries give up their first entry in constant time, plain ones do not.
        self.running: OrderedDict[TaskId, AttemptId] = OrderedDict()
        self.doomed: OrderedDict[TaskId, Unstarted] = OrderedDict()
        self.to_stop: OrderedDict[TaskId, Stop] = OrderedDict()
        self.reopening: OrderedDict[TaskId, None] = OrderedDict()
        self.unsettled = len(self.tasks)
        self.spending: dict[TaskId, float] = {}
        self.settled_usd = 0.0

    @property
    def spent_usd(self) -> float:
        """Dollars spent by all attempts, the running ones included."""
        return fsum([self.settled_usd, *self.spending.values()])

    def is_running(self, attempt: AttemptId) -> bool:
        """Return whether `attempt` is the newest one of its task and has not settled."""
        return self.running.get(attempt.task) == attempt

    def stop_of(self, attempt: AttemptId) -> Stop | None:
        """Return the stop that was announced to `attempt`, which must be running."""
        return self.tasks[attempt.task].stop

    def is_spoiled(self, task: TaskId) -> bool:
        """Return whether `task` is final without having succeeded."""
        status = self.tasks[task].status
        return status is not Status.SUCCEEDED and status.is_final
