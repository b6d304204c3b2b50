"""Checks as callers ask for them."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import AfterValidator, Field, TypeAdapter

from engine.core.ids import CheckId
from engine.core.quote import quote_value
from engine.core.spec import CheckSpec
from engine.records.fields import Argument, Id, Many
from engine.records.request import Request, RequestError, decode

MAX_TIMEOUT_MS = 1_200_000


def _names_a_program(argv: tuple[str, ...]) -> tuple[str, ...]:
    if not argv[0]:
        raise ValueError("names no program")
    return argv


class CheckRequest(Request):
    """A command that proves something; no shell is involved."""

    id: Id
    argv: Annotated[
        Many[Argument],
        Field(
            min_length=1,
            description="a nonempty array of texts: the program, then its arguments",
        ),
        AfterValidator(_names_a_program),
    ]
    timeout_ms: Annotated[
        int,
        Field(ge=1, le=MAX_TIMEOUT_MS, description=f"an integer from 1 to {MAX_TIMEOUT_MS:,}"),
    ] = 120_000

    def spec(self) -> CheckSpec:
        """Return the check as a value."""
        return CheckSpec(CheckId(self.id), self.argv, self.timeout_ms)


CheckList = Annotated[
    Many[Annotated[CheckRequest, Field(description="an object with id, argv and timeoutMs?")]],
    Field(description="an array of checks, each {id, argv, timeoutMs?}"),
]
_CHECKS: TypeAdapter[tuple[CheckRequest, ...]] = TypeAdapter(CheckList)


def decode_checks(data: object, field: str) -> tuple[CheckSpec, ...]:
    """Return the checks in `data`, the value of the call's field `field`.

    Raises:
        RequestError: a check does not fit, or two have the same id.
    """
    checks = tuple(check.spec() for check in decode(_CHECKS, data, field=field))
    refuse_repeated_ids([(field, checks)], place="")
    return checks


def refuse_repeated_ids(lists: Sequence[tuple[str, Sequence[CheckSpec]]], *, place: str) -> None:
    """Refuse two checks of the same id in the named lists together.

    Raises:
        RequestError: names both.
    """
    seen: dict[CheckId, str] = {}
    for field, checks in lists:
        for index, check in enumerate(checks):
            here = f"{field}[{index}]"
            if check.id in seen:
                rest = f"is already the id of {seen[check.id]}; give each check an id of its own"
                raise RequestError(place, f"{here}.id: {quote_value(check.id)} {rest}")
            seen[check.id] = here
