"""Requests: what callers hand over, as pydantic models, and the sentence that refuses one.

The sentence is built from the kind of fault, the value that was given and the description of its
field, which is also what callers see in the JSON schema. Pydantic's own texts stay inside.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from engine.core.errors import UsageError
from engine.core.quote import name_list, quote_value

T = TypeVar("T")
Schema = Mapping[str, Any]

_PROBLEMS = {
    "bool_type": "is not true or false",
    "dataclass_type": "is not an object",
    "dict_type": "is not an object",
    "enum": "is not one of the known values",
    "finite_number": "is not a finite number",
    "float_type": "is not a number",
    "greater_than": "is too small",
    "greater_than_equal": "is too small",
    "int_type": "is not an integer",
    "less_than_equal": "is too large",
    "list_type": "is not an array",
    "literal_error": "is not one of the known values",
    "model_type": "is not an object",
    "string_pattern_mismatch": "does not fit",
    "string_too_short": "is empty",
    "string_type": "is not text",
    "string_unicode": "is not text, because it holds half of a surrogate pair",
    "too_short": "is empty",
    "tuple_type": "is not an array",
}
_UNKNOWN_FIELD = frozenset({"extra_forbidden", "invalid_key", "unexpected_keyword_argument"})
_KEY = "[key]"


def _without_null_defaults(schema: dict[str, Any]) -> None:
    for field in schema.get("properties", {}).values():
        field.pop("title", None)
        if field.get("default", ...) is None:
            del field["default"]


class Request(BaseModel):
    """What a caller hands over: camel-case names, unknown fields refused, nothing converted."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="forbid",
        frozen=True,
        json_schema_extra=_without_null_defaults,
        strict=True,
    )


class RequestError(UsageError):
    """A request breaks a rule.

    Attributes:
        place: whose field it is (`task fix`, a file's name), or empty for the call itself.
        fault: the field, what is wrong with its value and what would be right.
    """

    def __init__(self, place: str, fault: str) -> None:
        self.place = place
        self.fault = fault
        super().__init__(_after(place, fault))


def _after(place: str, fault: str) -> str:
    return f"{place}: {fault}" if place else fault


def decode(adapter: TypeAdapter[T], data: object, *, place: str = "", field: str = "") -> T:
    """Return `data` as the adapter's type.

    Args:
        adapter: of a request model, or of a list of them.
        data: what a JSON text holds.
        place: see `RequestError`.
        field: the field that `data` is the value of, when it is not a whole request.

    Raises:
        RequestError: the first fault; an unknown field comes before anything else.
    """
    try:
        return adapter.validate_python(data)
    except ValidationError as error:
        fault = explain(error, adapter.json_schema(), field=field)
        if not (place or field or isinstance(data, dict)):
            place = "the call"
        raise RequestError(place, fault) from error


def explain(error: ValidationError, schema: Schema | None = None, *, field: str = "") -> str:
    """Return the first fault in `error` as a sentence that names the field.

    Args:
        error: what pydantic raised.
        schema: the JSON schema that was broken; its descriptions say what would be right.
        field: the field that the schema describes, when it is not a whole request.
    """
    return explain_all(error, schema, field=field, most=1)[0]


def explain_all(
    error: ValidationError, schema: Schema | None = None, *, field: str = "", most: int = 10
) -> tuple[str, ...]:
    """Return up to `most` faults like `explain`, for whoever mends them all in one go.

    Unknown fields come before anything else.
    """
    errors = error.errors(include_url=False)
    errors.sort(key=lambda one: one["type"] not in _UNKNOWN_FIELD)
    return tuple(_sentence(one, schema or {}, field) for one in errors[:most])


def _sentence(error: ErrorDetails, schema: Schema, field: str) -> str:
    *outer, name = error["loc"] or ("",)
    match error["type"]:
        case "invalid_key":
            return _after(_path(outer, field), f"the field name {quote_value(name)} is not text")
        case kind if kind in _UNKNOWN_FIELD:
            known = _resolved(schema, _walk(schema, outer)).get("properties")
            fault = f"unknown field {quote_value(name)}{_others(known)}"
            return _after(_path(outer, field), fault)
        case "json_invalid":
            return _after(field, "it is not JSON")
        case "missing":
            fault = f"{_path(error['loc'], field)} is missing"
        case _ if name == _KEY:
            named = f"the name {quote_value(error['input'])}"
            fault = f"{_path(outer[:-1], field)}: {named} {_problem(error)}"
        case _:
            value = quote_value(error["input"])
            fault = _after(_path(error["loc"], field), f"{value} {_problem(error)}")
    described = [*outer[:-1], _KEY] if name == _KEY else error["loc"]
    remedy = _walk(schema, described).get("description") if described else None
    return (
        fault if not remedy or fault.endswith(f"not {remedy}") else f"{fault}; it must be {remedy}"
    )


def _others(known: Mapping[str, object] | None) -> str:
    """Return which fields there are, where one was given that is none; None is not known."""
    if known is None:
        return ""
    match tuple(known):
        case ():
            return "; leave it out"
        case (name,):
            return f"; the only field is {name}"
        case names:
            return f"; the fields are {name_list(names, most=len(names))}"


def _problem(error: ErrorDetails) -> str:
    context = error.get("ctx", {})
    match error["type"]:
        case "value_error":
            return str(context["error"])
        case "string_too_long":
            return f"has more than {context['max_length']:,} characters"
        case "too_long":
            return f"has more than {context['max_length']:,} entries"
        case kind:
            return _PROBLEMS.get(kind, "is not allowed")


def _path(loc: Sequence[int | str], field: str) -> str:
    path = field
    for part in loc:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part.replace("-", "").isalnum() and part.isascii():
            path += f".{part}" if path else part
        else:
            path += f"[{quote_value(part)}]"
    return path


def _walk(schema: Schema, loc: Sequence[int | str]) -> Schema:
    """Return the part of `schema` that describes what stands at `loc`, reference unresolved."""
    node = schema
    for part in loc:
        inner = _resolved(schema, node)
        if isinstance(part, int):
            node = inner.get("items", {})
        elif part == _KEY:
            node = inner.get("propertyNames", {})
        else:
            node = inner.get("properties", {}).get(part) or _any_member(inner)
    return node


def _any_member(schema: Schema) -> Schema:
    members: Schema = next(iter(schema.get("patternProperties", {}).values()), {})
    return members or schema.get("additionalProperties") or {}


def _resolved(schema: Schema, node: Schema) -> Schema:
    """Return what `node` refers to, or `node`."""
    name = node.get("$ref", "").removeprefix("#/$defs/")
    return schema["$defs"][name] if name else node
