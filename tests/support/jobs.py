"""Jobs as callers write them, right in every respect but what a test adds."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import pytest
from pydantic import TypeAdapter

from engine.core.errors import UsageError
from engine.core.ids import CheckId, TaskId
from engine.core.spec import CheckSpec, Kind, ReviewTarget, RunSpec, TaskSpec
from engine.records.config import ConfigLayer
from engine.records.job import JobRequest, run_spec
from engine.records.request import decode

KINDS: Mapping[str, Kind] = MappingProxyType(
    {"scout": Kind.READER, "builder": Kind.WRITER, "reviewer": Kind.REVIEWER}
)

_JOB: TypeAdapter[JobRequest] = TypeAdapter(JobRequest)

Json = dict[str, object]


def scout(name: str = "look", **fields: object) -> Json:
    return {"id": name, "agent": "scout", "task": "look around", **fields}


def builder(name: str = "fix", **fields: object) -> Json:
    """Return a task that owns the folder of its own name."""
    own = {"ownership": [name], "checks": [check()]}
    return {"id": name, "agent": "builder", "task": "mend it", **own, **fields}


def reviewer(name: str = "judge", **fields: object) -> Json:
    return {"id": name, "agent": "reviewer", "task": "judge it", **fields}


def check(name: str = "test", **fields: object) -> Json:
    return {"id": name, "argv": ["make", "test"], **fields}


def job(*tasks: object, **fields: object) -> Json:
    """Return a call, approved if it has writers."""
    return {"tasks": list(tasks), "approval": "the owner said so", **fields}


def accepted(
    data: object, *, layers: Sequence[ConfigLayer] = (), fold_case: bool = False
) -> RunSpec:
    """Return the run that `data` asks for, or raise what refuses it, as a tool call does."""
    return run_spec(decode(_JOB, data), KINDS, layers=layers, fold_case=fold_case)


def refusal(data: object, *, fold_case: bool = False) -> str:
    """Return the sentence that refuses `data`, which must be one that a person can read."""
    with pytest.raises(UsageError) as caught:
        accepted(data, fold_case=fold_case)
    return readable(caught.value)


def readable(error: UsageError) -> str:
    """Return the error's text, which must be a short sentence of our own."""
    sentence = str(error)
    assert "\n" not in sentence
    assert "pydantic" not in sentence
    assert sentence[-1] != "."
    assert len(sentence) < 1_000
    sentence.encode("utf-8")
    return sentence


def task_spec(
    name: str,
    *after: str,
    kind: Kind = Kind.READER,
    owns: tuple[str, ...] = (),
    target: ReviewTarget | None = None,
) -> TaskSpec:
    return TaskSpec(
        id=TaskId(name),
        agent=kind.value,
        kind=kind,
        text="do it",
        after=tuple(TaskId(one) for one in after),
        ownership=owns,
        target=target,
    )


def check_spec(name: str, *argv: str, timeout_ms: int = 120_000) -> CheckSpec:
    return CheckSpec(CheckId(name), argv, timeout_ms)
