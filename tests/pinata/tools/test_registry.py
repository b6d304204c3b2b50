"""The ten tools as a model and its provider see them: order, schemas and refused fields."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from engine.core.errors import UsageError
from pinata import app
from tests.support.projects import Project

MODEL = {"provider": "scripted", "id": "x", "thinking": "off"}
CHECK = {"id": "pass", "argv": ["true"]}
TASK = {
    "id": "fix",
    "agent": "builder",
    "task": "mend it",
    "ownership": ["a.txt"],
    "checks": [CHECK],
    "evidenceChecks": [CHECK | {"id": "proof"}],
    "model": MODEL,
}
# What each tool takes, with every object that can stand inside.
ARGUMENTS: Mapping[str, dict[str, Any]] = {
    "pinata_run": {
        "tasks": [TASK],
        "approval": "by me",
        "integratedChecks": [CHECK],
        "config": {
            "models": {"default": MODEL},
            "fallbacks": {"default": [MODEL]},
            "limits": {"concurrency": 1},
        },
    },
    "pinata_status": {"run": "ab"},
    "pinata_steer": {"run": "ab", "task": "fix", "message": "faster", "as": "steer"},
    "pinata_cancel": {"run": "ab", "task": "fix"},
    "pinata_repair": {"run": "ab", "task": "fix", "feedback": "more"},
    "pinata_changes": {"run": "ab"},
    "pinata_verify": {"run": "ab", "checks": [CHECK]},
    "pinata_integrate": {"run": "ab"},
    "pinata_rollback": {"run": "ab", "confirm": True},
    "pinata_agents": {"name": "scout"},
}
KEYWORDS = {
    "$defs", "$ref", "additionalProperties", "anyOf", "const", "default", "description", "enum",
    "exclusiveMinimum", "items", "maxItems", "maxLength", "maximum", "minItems", "minLength",
    "minimum", "pattern", "properties", "propertyNames", "required", "title", "type",
}  # fmt: skip
TYPES = {"array", "boolean", "integer", "null", "number", "object", "string"}


@pytest.fixture(scope="module")
def schemas() -> dict[str, dict[str, Any]]:
    return {tool["name"]: tool["parameters"] for tool in app.describe_tools()}


def inner(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield a schema and all that stand inside."""
    yield schema
    for name in ("properties", "$defs"):
        for each in schema.get(name, {}).values():
            yield from inner(each)
    for name in ("items", "propertyNames", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield from inner(schema[name])
    for each in schema.get("anyOf", ()):
        yield from inner(each)


def test_there_are_ten_tools_in_the_order_of_their_use() -> None:
    assert list(app.TOOL_NAMES) == list(ARGUMENTS)


@pytest.mark.parametrize("tool", ARGUMENTS)
def test_schema_is_plain_and_whole(schemas: dict[str, dict[str, Any]], tool: str) -> None:
    whole = schemas[tool]
    assert whole["type"] == "object"
    for schema in inner(whole):
        assert set(schema) <= KEYWORDS
        assert schema.get("type", "string") in TYPES
        assert isinstance(schema.get("description", ""), str)
        if "$ref" in schema:
            kind, _, name = schema["$ref"].rpartition("/")
            assert kind == "#/$defs"
            assert name in whole["$defs"]
        if "pattern" in schema:
            re.compile(schema["pattern"])
        if "properties" in schema:
            assert schema["additionalProperties"] is False
            assert set(schema.get("required", ())) <= set(schema["properties"])
            assert list(dict.fromkeys(schema.get("required", ()))) == schema.get("required", [])


@pytest.mark.parametrize("tool", ARGUMENTS)
def test_every_field_says_what_it_takes(schemas: dict[str, dict[str, Any]], tool: str) -> None:
    for schema in inner(schemas[tool]):
        for name, field in schema.get("properties", {}).items():
            assert field.get("description"), f"{tool}: {name}"


def places(value: object, path: str = "") -> Iterator[str]:
    """Yield where objects stand in `value`: keys and indexes, joined by slashes."""
    if isinstance(value, dict):
        yield path
        for key, each in value.items():
            yield from places(each, f"{path}/{key}")
    elif isinstance(value, list):
        for at, each in enumerate(value):
            yield from places(each, f"{path}/{at}")


def with_field(value: Any, path: str) -> Any:
    """Return a copy of `value` with an unknown field in the object at `path`."""
    head, _, rest = path.removeprefix("/").partition("/")
    if not head:
        return {**value, "why": "x"}
    if isinstance(value, list):
        return [
            with_field(each, rest) if str(at) == head else each for at, each in enumerate(value)
        ]
    return {key: with_field(each, rest) if key == head else each for key, each in value.items()}


NAMED = ("/config/models", "/config/fallbacks")  # where every name is a definition's
CASES = [
    (tool, path)
    for tool, arguments in ARGUMENTS.items()
    for path in places(arguments)
    if path not in NAMED
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project.create(tmp_path_factory.mktemp("project"), {"a.txt": "one\n"})


@pytest.mark.parametrize(("tool", "path"), CASES)
async def test_unknown_field_is_refused_by_name_at_every_depth(
    project: Project, tool: str, path: str
) -> None:
    with pytest.raises(UsageError, match=r'unknown field "why"; the (only field is|fields are) '):
        await project.call(tool, with_field(ARGUMENTS[tool], path))
    assert project.runs == []


def test_descriptions_say_what_comes_next() -> None:
    described = {tool["name"]: tool["description"] for tool in app.describe_tools()}
    unsaid = set(app.TOOL_NAMES) - set(re.findall(r"pinata_\w+", " ".join(described.values())))
    assert unsaid == set()
