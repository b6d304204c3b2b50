"""Sentences about values that do not fit their model: where, what is wrong, what would be right."""

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from engine.core.quote import quote_value

_MAX_NAME_CHARS = 64
_MAX_FAULTS = 10
_WORDS = {
    "model_type": "an object",
    "dict_type": "an object",
    "list_type": "a list",
    "string_type": "text",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
}


class Strict(BaseModel):
    """Base of what is read from a file or a model: nothing unknown, nothing converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


def explain(error: ValidationError, fields: Sequence[str], place: str = "") -> list[str]:
    """Return one sentence for each fault, in the order of the fields, at most ten.

    Args:
        error: what pydantic found.
        fields: the names that the outermost object may have.
        place: what the validated value is called; empty when its fields speak for themselves.
    """
    return [
        f"{_place(place, fault['loc'])}: {_rule(fault, fields)}"
        for fault in error.errors(include_url=False, include_context=False)[:_MAX_FAULTS]
    ]


def _place(place: str, where: Sequence[int | str]) -> str:
    parts = [f"[{part}]" if isinstance(part, int) else f".{_name(part)}" for part in where]
    return (place + "".join(parts)).removeprefix(".") or "the whole"


def _name(part: str) -> str:
    """Return a field's name as it stands when it looks like one, quoted otherwise."""
    return part if part.isidentifier() and len(part) <= _MAX_NAME_CHARS else quote_value(part)


def _rule(fault: ErrorDetails, fields: Sequence[str]) -> str:
    kind, message = fault["type"], fault["msg"]
    if kind == "missing":
        return "is missing"
    if kind == "extra_forbidden" and len(fault["loc"]) == 1:
        return f"is not a field; the fields are {', '.join(fields)}"
    if kind == "extra_forbidden":
        return "is not a field there; remove it"
    if kind == "value_error":
        return message.removeprefix("Value error, ")
    if kind in {"too_short", "string_too_short"}:
        return "must not be empty"
    if kind in {"too_long", "string_too_long"}:
        return message[0].lower() + message[1:]
    wanted = _WORDS.get(kind) or message.removeprefix("Input should be ")
    return f"must be {wanted}, not {quote_value(fault['input'])}"
