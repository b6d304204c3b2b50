"""A run's request as its record keeps it."""

import json
from dataclasses import replace
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from engine.core.errors import CorruptionError
from engine.core.quote import quote_value
from engine.core.spec import RunSpec
from engine.records.request import explain

VERSION = 1


@cache
def _adapter() -> TypeAdapter[RunSpec]:
    # Built when first used: whoever only loads this module does not wait for it.
    return TypeAdapter(RunSpec)


def encode_spec(spec: RunSpec) -> dict[str, Any]:
    """Return `spec` as what a JSON text can hold, with the version of its form."""
    config = spec.config
    # Pydantic does not write read-only mappings.
    config = replace(config, models=dict(config.models), fallbacks=dict(config.fallbacks))
    fields: dict[str, Any] = _adapter().dump_python(replace(spec, config=config), mode="json")
    return {"version": VERSION} | fields


def decode_spec(data: object) -> RunSpec:
    """Return the request that `encode_spec` turned into `data`.

    Raises:
        CorruptionError: `data` is no request of this version.
    """
    if not isinstance(data, dict):
        raise CorruptionError("spec: the stored request is not an object")
    fields = dict(data)
    version = fields.pop("version", None)
    if type(version) is not int or version != VERSION:
        raise CorruptionError(
            f"spec: the stored request has version {quote_value(version)}, "
            f"and this program reads version {VERSION}"
        )
    try:
        return _adapter().validate_json(json.dumps(fields))
    except ValidationError as error:
        raise CorruptionError(explain(error, field="spec")) from error
