"""JSON schemas as models read them: without what costs tokens and teaches nothing."""

from collections.abc import Mapping
from functools import cache

from engine.records.request import Request


@cache
def describe(request: type[Request]) -> Mapping[str, object]:
    """Return the JSON schema of `request` as a tool declaration shows it; made once.

    Titles, references and the `null` of optional fields are left out: they cost tokens in every
    request and invite models to send `null`.
    """
    schema = request.model_json_schema()
    schema.pop("description", None)
    plain = _plain(schema, schema.pop("$defs", {}))
    assert isinstance(plain, dict)
    return plain


def _plain(node: object, definitions: Mapping[str, object]) -> object:
    if isinstance(node, list):
        return [_plain(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _plain(definitions[str(node["$ref"]).rpartition("/")[2]], definitions)
    plain: dict[str, object] = {}
    for choice in node.get("anyOf", ()):
        if choice != {"type": "null"}:
            resolved = _plain(choice, definitions)
            assert isinstance(resolved, dict)
            plain |= resolved
    for key, value in node.items():
        if key not in {"title", "default", "anyOf"}:
            plain[key] = _plain(value, definitions)
    return plain
