"""The wire form of a run's view: what a viewer that comes later begins from.

Keys are the attributes' names. What has its default has no key, since most of a thousand tasks is.
"""

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from engine.core.errors import CorruptionError
from engine.core.view import ResourcesView, RunView, TaskView, UsageView
from engine.records.request import explain


def encode_view(view: RunView) -> dict[str, Any]:
    """Return what JSON can hold of `view`, which is all of it."""
    encoded: dict[str, Any] = _plain(view)
    return encoded


def decode_view(data: object) -> RunView:
    """Return the view that `encode_view` made `data` of.

    Raises:
        CorruptionError: it did not, or another version of pinata did.
    """
    try:
        # Not strict, since there are no enumerations and no tuples in JSON; and not from JSON text,
        # since half of a surrogate pair, which models do send, is kept from there.
        return _adapter().validate_python(data)
    except ValidationError as error:
        raise CorruptionError(f"the view of a run is damaged: {explain(error)}") from error


@cache
def _adapter() -> TypeAdapter[RunView]:
    return TypeAdapter(RunView)


def _plain(value: Any) -> Any:  # noqa: ANN401 - whatever a view is made of
    match value:
        case Enum():
            return value.value
        case Mapping():
            return {key: _plain(each) for key, each in value.items()}
        case TaskView() | UsageView() | ResourcesView():
            return _named(value, value._fields, value._field_defaults)
        case tuple():
            return [_plain(each) for each in value]
        case _ if is_dataclass(value) and not isinstance(value, type):
            known = _defaults(type(value))
            return _named(value, tuple(known), known)
        case _:
            return value


def _named(value: object, names: tuple[str, ...], known: Mapping[str, object]) -> dict[str, Any]:
    found = ((name, getattr(value, name)) for name in names)
    return {
        name: _plain(each)
        for name, each in found
        if name not in known or known[name] is MISSING or each != known[name]
    }


@cache
def _defaults(kind: type[Any]) -> dict[str, object]:
    """Return every field of a dataclass with its default, `MISSING` where it has none."""
    return {field.name: _default(field) for field in fields(kind)}


def _default(field: Field[Any]) -> object:
    return field.default if field.default_factory is MISSING else field.default_factory()
