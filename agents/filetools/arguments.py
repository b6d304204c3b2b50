"""Arguments of the file tools as a model sends them, and the sentences that teach the right form.

One class per tool is both the JSON schema that the model reads and the check of what it sends, so
the two cannot disagree. A call's arguments are used at once and travel no further than its tool.
"""

import sys
from collections.abc import Mapping
from math import inf
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, Field, ValidationError

from engine.core.errors import UsageError
from engine.core.quote import quote_value
from engine.records.request import Request, explain_all

_PATH = "relative to the working directory or absolute"
_FAULTS_NAMED = 5


class ArgumentsError(UsageError):
    """Arguments do not fit the tool's schema; the message is written for the model."""


def _whole(text: str) -> str:
    """Return `text` unless it holds half of a surrogate pair, which JSON can spell."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("holds half of a surrogate pair; send whole characters") from None
    return text


def _countable(number: int) -> int:
    """Return `number` unless it is larger than Python can count; no schema has to say so."""
    if number > sys.maxsize:
        raise ValueError("is larger than any file is long; send a smaller number")
    return number


Text = Annotated[str, AfterValidator(_whole)]
Count = Annotated[int, Field(ge=1), AfterValidator(_countable)]
A = TypeVar("A", bound=Request)


class ReadArguments(Request):
    """Arguments of read."""

    path: Text = Field(description=f"the path of the file to read, {_PATH}")
    offset: Count | None = Field(
        None, description="the number of the first line to show, from 1 up"
    )
    limit: Count | None = Field(None, description="how many lines to show, from 1 up")


def _timeout(default: str) -> Any:  # noqa: ANN401 - what pydantic has as the type of a field
    """Return the field of a time limit; `default` says what holds without one."""
    return Field(
        None,
        gt=0,
        le=86_400,
        allow_inf_nan=False,
        description="a number of seconds, above 0 and up to 86,400, after which it is stopped; "
        f"{default} by default",
    )


class BashArguments(Request):
    """Arguments of bash."""

    command: Text = Field(description="the shell script to run")
    timeout: float | None = _timeout("none")

    @property
    def limit_s(self) -> float:
        """After how many seconds the command is stopped."""
        return inf if self.timeout is None else self.timeout


# How long a command may take whose caller does not say.
COMMAND_LIMIT_S = 600.0


class BoundedBashArguments(BashArguments):
    """Arguments of a bash that stops every command some time."""

    timeout: float | None = _timeout(f"{COMMAND_LIMIT_S:g}")

    @property
    def limit_s(self) -> float:
        """After how many seconds the command is stopped."""
        return COMMAND_LIMIT_S if self.timeout is None else self.timeout


class Edit(Request):
    """One replacement."""

    old_text: Text = Field(
        description="the text to replace, exactly as in the file, where it occurs once"
    )
    new_text: Text = Field(description="the text that takes its place")


class EditArguments(Request):
    """Arguments of edit."""

    path: Text = Field(description=f"the path of the file to edit, {_PATH}")
    edits: list[Edit] = Field(
        min_length=1,
        description="an array of replacements, {oldText, newText}, each found in the file as it "
        "was before the call; they must not overlap",
    )


class WriteArguments(Request):
    """Arguments of write."""

    path: Text = Field(description=f"the path of the file to write, {_PATH}")
    content: Text = Field(description="the whole content of the file")


class GrepArguments(Request):
    """Arguments of grep."""

    pattern: Text = Field(
        description="a regular expression in RE2 syntax, or plain text if literal is set"
    )
    path: Text | None = Field(
        None, description=f"the path of the directory or file to search, {_PATH}"
    )
    glob: Text | None = Field(
        None, description="a glob that files must fit, such as *.ts, src/**/*.{c,h} or !*.md"
    )
    ignore_case: bool | None = Field(None, description="true to take upper and lower case as equal")
    literal: bool | None = Field(None, description="true to take the pattern as plain text")
    context: int | None = Field(
        None,
        ge=0,
        le=100,
        description="how many lines to show before and after each match, from 0 to 100",
    )
    limit: Count | None = Field(
        None, description="how many matching lines to show, from 1 up; 100 by default"
    )


class FindArguments(Request):
    """Arguments of find."""

    pattern: Text = Field(description="a glob, such as *.py or src/**/test_*.{js,ts}")
    path: Text | None = Field(None, description=f"the path of the directory to search, {_PATH}")
    limit: Count | None = Field(
        None, description="how many paths to show, from 1 up; 1,000 by default"
    )


class LsArguments(Request):
    """Arguments of ls."""

    path: Text | None = Field(None, description=f"the path of the directory to list, {_PATH}")
    limit: Count | None = Field(
        None, description="how many entries to show, from 1 up; 500 by default"
    )


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
        faults = explain_all(error, arguments.model_json_schema(), most=_FAULTS_NAMED)
        raise ArgumentsError(". ".join(faults)) from error
