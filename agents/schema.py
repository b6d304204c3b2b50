"""Checks values against the JSON schemas that tools show to models.

What is enforced is what was shown: one schema serves both. Only the keywords listed in `faults`
exist; a schema that uses another one is a bug and says so at once.
"""

import math
from collections.abc import Callable, Mapping, Sequence

_MAX_FAULTS = 20
_MAX_QUOTED_CHARS = 200
_KNOWN = frozenset(
    {
        *("type", "description", "properties", "required", "additionalProperties", "items"),
        *("enum", "minLength", "maxLength", "minItems", "maxItems", "minimum", "maximum"),
        *("default", "title"),
    }
)
_WORDS = {
    "object": "an object",
    "array": "a list",
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}

Schema = Mapping[str, object]


def quoted(value: object) -> str:
    """Return `value` as JSON-like text for an error message, at most 200 characters of it."""
    text = repr(value[:_MAX_QUOTED_CHARS]) if isinstance(value, str) else repr(value)
    return text if len(text) <= _MAX_QUOTED_CHARS else text[:_MAX_QUOTED_CHARS] + "..."


def faults(schema: Schema, value: object, place: str = "") -> list[str]:
    """Return what is wrong with `value`, one sentence each, at most 20; empty when it fits.

    Keywords: type (one or a list), properties, required, additionalProperties (false or absent),
    items, enum, minLength, maxLength, minItems, maxItems, minimum, maximum. `description`,
    `default` and `title` are for the reader. Whole floats are not integers and booleans are not
    numbers. Text holds no NUL and no half of a surrogate pair, for neither can be stored.

    Args:
        schema: of `value`.
        value: what JSON can hold; anything else is a fault.
        place: how messages name `value`, such as `findings[0]`; empty for the whole.
    """
    found: list[str] = []
    _check(schema, value, place, found)
    return found


def _check(schema: Schema, value: object, place: str, found: list[str]) -> None:
    assert schema.keys() <= _KNOWN, f"unknown keywords in a schema: {schema.keys() - _KNOWN}"
    if len(found) >= _MAX_FAULTS:
        return
    name = place or "the arguments"
    actual = _type_of(value)
    wanted = _types(schema)
    if wanted and actual not in wanted and not (actual == "integer" and "number" in wanted):
        expected = " or ".join(_WORDS[each] for each in wanted)
        found.append(f"{name}: must be {expected}, not {quoted(value)}")
        return
    allowed = schema.get("enum")
    if isinstance(allowed, Sequence) and value not in allowed:
        choices = ", ".join(str(each) for each in allowed)
        found.append(f"{name}: {quoted(value)} is not one of {choices}")
        return
    if actual in _CHECKS:
        _CHECKS[actual](schema, value, place, found)
    elif actual is None:
        found.append(f"{name}: {quoted(value)} cannot be written as JSON")


def _types(schema: Schema) -> tuple[str, ...]:
    wanted = schema.get("type", ())
    if isinstance(wanted, str):
        return (wanted,)
    assert isinstance(wanted, Sequence)
    return tuple(str(each) for each in wanted)


def _type_of(value: object) -> str | None:
    """Return the JSON type of `value`, or None when JSON cannot hold it."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, float):
        return "number" if math.isfinite(value) else None
    kinds = {str: "string", int: "integer", list: "array", dict: "object", type(None): "null"}
    return next((name for kind, name in kinds.items() if isinstance(value, kind)), None)


def _bound(schema: Schema, keyword: str) -> float | None:
    limit = schema.get(keyword)
    return limit if isinstance(limit, int | float) else None


def _check_object(schema: Schema, value: object, place: str, found: list[str]) -> None:
    assert isinstance(value, dict)
    properties = schema.get("properties", {})
    required = schema.get("required", ())
    assert isinstance(properties, Mapping)
    assert isinstance(required, Sequence)
    prefix = f"{place}." if place else ""
    found.extend(f"{prefix}{key}: is missing" for key in required if key not in value)
    closed = schema.get("additionalProperties") is False
    for key, each in value.items():
        if key in properties:
            _check(properties[key], each, f"{prefix}{key}", found)
        elif closed:
            known = ", ".join(properties) or "none"
            found.append(f"{prefix}{_short(key)}: is not a field here; the fields are {known}")


def _short(key: object) -> str:
    """Return a key as it stands when it is an ordinary name, quoted otherwise."""
    return key if isinstance(key, str) and key.isidentifier() and len(key) < 64 else quoted(key)  # noqa: PLR2004 - longer than any field that a person would name


def _check_array(schema: Schema, value: object, place: str, found: list[str]) -> None:
    assert isinstance(value, list)
    name = place or "the list"
    least, most = _bound(schema, "minItems"), _bound(schema, "maxItems")
    if least is not None and len(value) < least:
        found.append(f"{name}: needs at least {least} entries, has {len(value)}")
    if most is not None and len(value) > most:
        found.append(f"{name}: may have at most {most} entries, has {len(value)}")
        return
    items = schema.get("items")
    if isinstance(items, Mapping):
        for index, each in enumerate(value):
            _check(items, each, f"{place}[{index}]", found)


def _check_string(schema: Schema, value: object, place: str, found: list[str]) -> None:
    assert isinstance(value, str)
    name = place or "the text"
    least, most = _bound(schema, "minLength"), _bound(schema, "maxLength")
    if least is not None and len(value.strip()) < least:
        found.append(f"{name}: must not be empty")
    if most is not None and len(value) > most:
        found.append(f"{name}: may have at most {most} characters, has {len(value)}")
    elif "\0" in value:
        found.append(f"{name}: must not hold a NUL character")
    elif any("\ud800" <= character <= "\udfff" for character in value):
        found.append(f"{name}: holds half of a surrogate pair, which is not a character")


def _check_number(schema: Schema, value: object, place: str, found: list[str]) -> None:
    assert isinstance(value, int | float)
    name = place or "the number"
    least, most = _bound(schema, "minimum"), _bound(schema, "maximum")
    if least is not None and value < least:
        found.append(f"{name}: must be at least {least}, not {quoted(value)}")
    if most is not None and value > most:
        found.append(f"{name}: must be at most {most}, not {quoted(value)}")


_CHECKS: Mapping[str | None, Callable[[Schema, object, str, list[str]], None]] = {
    "object": _check_object,
    "array": _check_array,
    "string": _check_string,
    "integer": _check_number,
    "number": _check_number,
}
