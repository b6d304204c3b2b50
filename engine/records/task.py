"""Tasks as callers describe them, and the rules that concern one task alone."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field, TypeAdapter

from engine.core.ids import TaskId
from engine.core.ownership import normalise_entry
from engine.core.paths import path_fault
from engine.core.quote import name_list, quote_value
from engine.core.spec import (
    Kind,
    ReviewBase,
    ReviewOf,
    ReviewPr,
    ReviewTarget,
    TaskSpec,
)
from engine.records.check import CheckList, refuse_repeated_ids
from engine.records.fields import ID_PATTERN, Id, Many, NotNull, Reference, Text
from engine.records.model import BackendField, ModelField
from engine.records.request import Request, RequestError, decode

_MAX_REVISION_CHARS = 200
_MAX_PR = 2_147_483_647


def _entry(text: str) -> str:
    entry = normalise_entry(text)
    fault = path_fault(entry)
    if fault:
        raise ValueError(fault)
    return entry


def _revision(text: str) -> str:
    if text.startswith("-"):
        raise ValueError("is not a revision, because it starts with a hyphen")
    if any(char.isspace() or not char.isprintable() for char in text):
        raise ValueError("is not a revision, because it holds a space or a control character")
    return text


Entry = Annotated[
    Text,
    Field(description="a relative path inside the repository, such as src/login"),
    AfterValidator(_entry),
]


class TaskRequest(Request):
    """One task of a run."""

    id: Id
    agent: Annotated[str, Field(description="the name of an installed definition")]
    task: Annotated[Text, Field(description="text that says what is to be done")]
    acceptance: Annotated[
        Many[Text] | None,
        NotNull(),
        Field(min_length=1, description="a nonempty array of criteria that the result must meet"),
    ] = None
    instructions: Annotated[Many[Text], Field(description="an array of texts")] = ()
    context: Annotated[
        Many[Text], Field(description="an array of texts: evidence, not authority")
    ] = ()
    after: Annotated[
        Many[Reference],
        Field(description="an array of ids of tasks that must succeed before this one starts"),
    ] = ()
    model: Annotated[ModelField | None, NotNull()] = None
    backend: Annotated[BackendField | None, NotNull()] = None
    ownership: Annotated[
        Many[Entry],
        Field(description="an array of relative paths of files or folders (writers only)"),
    ] = ()
    checks: Annotated[
        CheckList,
        Field(description="an array of checks, each {id, argv, timeoutMs?} (writers only)"),
    ] = ()
    no_checks_reason: Annotated[
        Text | None,
        NotNull(),
        Field(description="text that says why there are no checks (writers only)"),
    ] = None
    evidence_checks: Annotated[
        CheckList,
        Field(description="an array of checks that change nothing, each {id, argv, timeoutMs?}"),
    ] = ()
    review_of: Annotated[
        str | None,
        NotNull(),
        Field(description="the id of a writer that also stands in after (reviewers only)"),
    ] = None
    review_base: Annotated[
        str | None,
        NotNull(),
        Field(
            min_length=1,
            max_length=_MAX_REVISION_CHARS,
            description="a revision of 1 to 200 characters, such as HEAD (reviewers only)",
        ),
        AfterValidator(_revision),
    ] = None
    review_pr: Annotated[
        int | None,
        NotNull(),
        Field(
            ge=1,
            le=_MAX_PR,
            description="the number of a GitHub pull request, from 1 up (reviewers only)",
        ),
    ] = None

    def targets(self) -> Mapping[str, ReviewTarget]:
        """Return the review targets that were given, by field."""
        found: dict[str, ReviewTarget] = {}
        if self.review_of is not None:
            found["reviewOf"] = ReviewOf(TaskId(self.review_of))
        if self.review_base is not None:
            found["reviewBase"] = ReviewBase(self.review_base)
        if self.review_pr is not None:
            found["reviewPr"] = ReviewPr(self.review_pr)
        return found


@dataclass(frozen=True, slots=True)
class Roll:
    """Which definitions a run can use.

    Attributes:
        kinds: the available ones.
        unavailable: the others, with the reason of each.
    """

    kinds: Mapping[str, Kind]
    unavailable: Mapping[str, str]


_TASK: TypeAdapter[TaskRequest] = TypeAdapter(TaskRequest)


def decode_tasks(items: Sequence[object], roll: Roll) -> tuple[TaskSpec, ...]:
    """Return the tasks in `items`, each checked by itself.

    Raises:
        RequestError: the first fault, in input order.
    """
    specs: dict[str, TaskSpec] = {}
    for index, item in enumerate(items):
        request = decode(_TASK, item, place=_place(item, index, specs))
        if request.id in specs:
            earlier = list(specs).index(request.id)
            raise RequestError(
                f"tasks[{index}]",
                f"id: {quote_value(request.id)} is already the id of tasks[{earlier}]; "
                "give each task an id of its own",
            )
        specs[request.id] = _spec(request, roll)
    return tuple(specs.values())


def _place(item: object, index: int, seen: Mapping[str, object]) -> str:
    """Return the name of a task in messages: its position while its id cannot name it."""
    name = item.get("id") if isinstance(item, dict) else None
    if isinstance(name, str) and name not in seen and re.fullmatch(ID_PATTERN, name):
        return f"task {name}"
    return f"tasks[{index}]"


def _spec(request: TaskRequest, roll: Roll) -> TaskSpec:
    """Return the task as a value, the rules of its agent's kind checked.

    Raises:
        RequestError: the first fault, in the order of the fields.
    """
    place = f"task {request.id}"
    kind = _kind(request.agent, roll, place)
    checks = tuple(check.spec() for check in request.checks)
    evidence_checks = tuple(check.spec() for check in request.evidence_checks)
    if kind is Kind.WRITER:
        _check_writer(request, place)
    else:
        _refuse_writer_fields(request, kind, place)
    refuse_repeated_ids([("checks", checks), ("evidenceChecks", evidence_checks)], place=place)
    return TaskSpec(
        id=TaskId(request.id),
        agent=request.agent,
        kind=kind,
        text=request.task,
        acceptance=request.acceptance or (),
        instructions=request.instructions,
        context=request.context,
        after=tuple(TaskId(name) for name in dict.fromkeys(request.after)),
        model=request.model.choice() if request.model else None,
        backend=request.backend,
        ownership=tuple(dict.fromkeys(request.ownership)),
        checks=checks,
        no_checks_reason=request.no_checks_reason,
        evidence_checks=evidence_checks,
        target=_target(request, kind, place),
    )


def _kind(agent: str, roll: Roll, place: str) -> Kind:
    kind = roll.kinds.get(agent)
    if kind is not None:
        return kind
    reason = roll.unavailable.get(agent)
    fault = f"is not available: {reason}" if reason else "is not an installed definition"
    names = sorted(roll.kinds)
    remedy = f"use {name_list(names, last='or')}" if names else "none is available"
    raise RequestError(place, f"agent: {quote_value(agent)} {fault}; {remedy}")


def _check_writer(request: TaskRequest, place: str) -> None:
    if not request.ownership:
        raise RequestError(
            place,
            f"ownership is {_emptiness(request, 'ownership')}; {request.agent} is a writer and "
            "must own at least one relative path, such as src/login",
        )
    if not request.checks and request.no_checks_reason is None:
        raise RequestError(
            place,
            f"checks is {_emptiness(request, 'checks')}; {request.agent} is a writer: give at "
            "least one check, or say in noChecksReason why there is none",
        )


def _emptiness(request: TaskRequest, field: str) -> str:
    return "empty" if field in request.model_fields_set else "missing"


def _refuse_writer_fields(request: TaskRequest, kind: Kind, place: str) -> None:
    for field, given in (
        ("ownership", request.ownership),
        ("checks", request.checks),
        ("noChecksReason", request.no_checks_reason),
    ):
        if given:
            rest = f"is for writers only and {request.agent} is a {kind.value}; remove it"
            raise RequestError(place, f"{field} {rest}")


def _target(request: TaskRequest, kind: Kind, place: str) -> ReviewTarget | None:
    targets = request.targets()
    if kind is not Kind.REVIEWER:
        for field in targets:
            rest = f"is for reviewers only and {request.agent} is a {kind.value}; remove it"
            raise RequestError(place, f"{field} {rest}")
        return None
    if len(targets) != 1:
        given = f"has {name_list(list(targets))}" if targets else "has none"
        raise RequestError(
            place,
            f"{request.agent} is a reviewer and needs exactly one of reviewOf, reviewBase and "
            f"reviewPr, but the task {given}",
        )
    return next(iter(targets.values()))


def unstated_acceptance(specs: Sequence[TaskSpec]) -> tuple[str, ...]:
    """Return a notice about tasks whose result is judged by their text alone, if there are any."""
    names = [
        str(spec.id)
        for spec in specs
        if not spec.acceptance and (spec.kind is Kind.WRITER or isinstance(spec.target, ReviewOf))
    ]
    if not names:
        return ()
    which = f"task {names[0]} has" if len(names) == 1 else f"tasks {name_list(names)} have"
    return (f"{which} no acceptance criteria, so the text alone says what a good result is",)
