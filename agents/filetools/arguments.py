"""Arguments of the file tools as a model sends them, and the sentences that teach the right form.

One class per tool is both the JSON schema that the model reads and the check of what it sends, so
the two cannot disagree. A call's arguments are used at once and travel no further than its tool.
"""

from collections.abc import Mapping
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from engine.core.errors import UsageError
from engine.core.quote import quote_value

_PATH = "relative to the working directory, or absolute"


class ArgumentsError(UsageError):
    """Arguments do not fit the tool's schema; the message is written for the model."""


def _whole(text: str) -> str:
    """Return `text` unless it holds half of a surrogate pair, which JSON can spell."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("half of a surrogate pair is no text; send whole characters") from None
    return text


Text = Annotated[str, AfterValidator(_whole)]


class Arguments(BaseModel):
    """What a tool is called with."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


A = TypeVar("A", bound=Arguments)


class ReadArguments(Arguments):
    """Arguments of read."""

    path: Text = Field(description=f"The file to read, {_PATH}")
    offset: int | None = Field(None, ge=1, description="First line to show, counted from 1")
    limit: int | None = Field(None, ge=1, description="How many lines to show")


class BashArguments(Arguments):
    """Arguments of bash."""

    command: Text = Field(description="The shell script to run")
    timeout: float | None = Field(
        None, gt=0, le=86_400, description="Seconds after which it is stopped; none by default"
    )


class Edit(Arguments):
    """One replacement."""

    old_text: Text = Field(
        alias="oldText",
        description="The text to replace, exactly as in the file, where it occurs once",
    )
    new_text: Text = Field(alias="newText", description="The text that takes its place")


class EditArguments(Arguments):
    """Arguments of edit."""

    path: Text = Field(description=f"The file to edit, {_PATH}")
    edits: list[Edit] = Field(
        min_length=1,
        description="Replacements, each found in the file as it was before the call; "
        "they must not overlap",
    )


class WriteArguments(Arguments):
    """Arguments of write."""

    path: Text = Field(description=f"The file to write, {_PATH}")
    content: Text = Field(description="The whole content of the file")


class GrepArguments(Arguments):
    """Arguments of grep."""

    pattern: Text = Field(description="Regular expression in RE2 syntax, or text if literal is set")
    path: Text | None = Field(None, description=f"Directory or file to search, {_PATH}")
    glob: Text | None = Field(
        None, description="Only files that fit, such as *.ts, src/**/*.{c,h} or !*.md"
    )
    ignore_case: bool | None = Field(
        None, alias="ignoreCase", description="Take upper and lower case as equal"
    )
    literal: bool | None = Field(None, description="Take the pattern as plain text")
    context: int | None = Field(
        None, ge=0, le=100, description="Lines to show before and after each match"
    )
    limit: int | None = Field(
        None, ge=1, description="How many matching lines to show; 100 by default"
    )


class FindArguments(Arguments):
    """Arguments of find."""

    pattern: Text = Field(description="Glob, such as *.py or src/**/test_*.{js,ts}")
    path: Text | None = Field(None, description=f"Directory to search, {_PATH}")
    limit: int | None = Field(None, ge=1, description="How many paths to show; 1000 by default")


class LsArguments(Arguments):
    """Arguments of ls."""

    path: Text | None = Field(None, description=f"Directory to list, {_PATH}")
    limit: int | None = Field(None, ge=1, description="How many entries to show; 500 by default")


def describe_arguments(arguments: type[Arguments]) -> Mapping[str, object]:
    """Return the JSON schema of `arguments`, without what a model has no use for.

    Titles, references and the `null` of optional fields are left out: they cost tokens in every
    request and invite models to send `null`.
    """
    schema = arguments.model_json_schema()
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
            plain |= choice
    for key, value in node.items():
        if key not in {"title", "default", "anyOf"}:
            plain[key] = _plain(value, definitions)
    return plain


def decode_arguments(arguments: type[A], given: object) -> A:
    """Return `given` as a value of `arguments`.

    Raises:
        ArgumentsError: a field is missing, unknown, or holds what it must not.
    """
    if not isinstance(given, Mapping):
        raise ArgumentsError(f"the arguments must be one JSON object, not {quote_value(given)}")
    try:
        return arguments.model_validate(dict(given))
    except ValidationError as error:
        faults = [_sentence(fault["loc"], fault["type"], fault["msg"]) for fault in error.errors()]
        fields = ", ".join(field.alias or name for name, field in arguments.model_fields.items())
        raise ArgumentsError(f"{'; '.join(faults[:5])}; the fields are: {fields}") from error


def _sentence(where: tuple[int | str, ...], kind: str, message: str) -> str:
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in where]
    name = "".join(parts).removeprefix(".")
    match kind:
        case "missing":
            return f"{quote_value(name)} is missing"
        case "extra_forbidden":
            return f"{quote_value(name)} is no field of this tool"
        case _:
            said = message.removeprefix("Value error, ")
            return f"{quote_value(name)}: {said[0].lower()}{said[1:]}"
