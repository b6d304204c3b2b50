"""A run that this process owns: its record, its places, and what its tasks are done with."""

from collections.abc import Mapping
from dataclasses import dataclass

from agents.definition import Definition
from engine.core.graph import TaskGraph
from engine.core.ids import RunId, TaskId
from engine.core.spec import Backend, RunSpec
from engine.records.run import RunRecordV1
from engine.store import RunFolder
from pinata.work.context import Context
from pinata.work.models import ChosenModel
from pinata.work.places import Places
from worktrees.hygiene import Repository


@dataclass(frozen=True, slots=True)
class Run:
    """What is fixed about a run, in the hands of the process that holds its lock.

    Attributes:
        repository: the checkout, with the run's mark for every process.
        models: of every task.
    """

    context: Context
    record: RunRecordV1
    spec: RunSpec
    graph: TaskGraph
    places: Places
    folder: RunFolder
    repository: Repository
    definitions: Mapping[str, Definition]
    models: Mapping[TaskId, ChosenModel]

    @property
    def id(self) -> RunId:
        """The run's id."""
        return self.record.id

    def definition(self, task: TaskId) -> Definition:
        """Return the definition that `task` names, as it was when the run started."""
        return self.definitions[self.spec.task(task).agent]

    def backend_of(self, task: TaskId) -> Backend:
        """Return what runs the agent of a task."""
        return self.models[task].backend
