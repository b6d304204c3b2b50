"""Identifiers. Each kind has a type of its own, so that a commit is never taken for a tree."""

from dataclasses import dataclass
from typing import NewType

RunId = NewType("RunId", str)
TaskId = NewType("TaskId", str)
CheckId = NewType("CheckId", str)
CommitId = NewType("CommitId", str)
TreeId = NewType("TreeId", str)
BlobId = NewType("BlobId", str)
Fingerprint = NewType("Fingerprint", str)


@dataclass(frozen=True, slots=True, order=True)
class AttemptId:
    """One try at a task.

    Attributes:
        number: 1 for the first try; 0 names a task that settled without ever being started.
    """

    task: TaskId
    number: int

    def __str__(self) -> str:
        return f"{self.task}@{self.number}"
