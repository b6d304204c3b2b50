"""One file of a definition: its front matter, read strictly, and the text below."""

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, TypeAdapter

from agents.strict_yaml import StrictYamlError, decode_yaml
from engine.core.errors import UsageError
from engine.core.spec import Kind
from engine.records.fields import ID_PATTERN, ID_RULE, TEXT_LIMIT_CHARS, Many, NotNull
from engine.records.model import BackendField, ThinkingField
from engine.records.request import Request, RequestError, decode
from engine.system.files import read_input

_MAX_FILE_BYTES = 1 << 20


class FaultError(ValueError):
    """A definition cannot be used; the message is the reason that people read."""


def _off(value: object) -> object:
    return "off" if value is False else value


_Flag = Annotated[bool | None, NotNull(), Field(description="true or false")]
_Texts = Annotated[Many[str] | None, NotNull(), Field(description="a list of texts")]
_ToolNames = Annotated[Many[str] | None, NotNull(), Field(description="a list of tool names")]


class FrontMatter(Request):
    """The settings of one file; an overlay states only what it changes.

    From `enabled` on they concern managed agents: in a run, the kind and `tools` say it all.
    """

    name: Annotated[str | None, NotNull(), Field(description="the file's name without .md")] = None
    description: Annotated[
        str | None, NotNull(), Field(min_length=1, max_length=1000, description="text")
    ] = None
    kind: Annotated[
        Kind | None, NotNull(), Field(strict=False, description="reader, writer or reviewer")
    ] = None
    tools: _ToolNames = None
    model: Annotated[
        str | None,
        NotNull(),
        Field(description="a provider and a model's id with a slash between them"),
    ] = None
    thinking: Annotated[ThinkingField | None, NotNull(), BeforeValidator(_off)] = None
    backend: Annotated[BackendField | None, NotNull()] = None
    codemode: _Flag = None
    require_sources: _Flag = None
    body_mode: Annotated[
        Literal["append", "replace"] | None, NotNull(), Field(description="append or replace")
    ] = None
    enabled: _Flag = None
    system_prompt_mode: Annotated[
        Literal["append", "replace"] | None, NotNull(), Field(description="append or replace")
    ] = None
    no_tools: _Flag = None
    no_builtin_tools: _Flag = None
    exclude_tools: _ToolNames = None
    permission: object = None
    no_skills: _Flag = None
    inherit_skills: _Flag = None
    skills: _Texts = None
    no_extensions: _Flag = None
    extensions: _Texts = None
    agents: Annotated[
        Many[str] | None, NotNull(), Field(description="a list of definitions' names")
    ] = None
    inherit_project_context: _Flag = None
    inherit_global_context: _Flag = None


_SETTINGS: TypeAdapter[FrontMatter] = TypeAdapter(FrontMatter)


def read_definition_file(path: Path) -> tuple[FrontMatter, str]:
    """Return the settings that the file at `path` states, and its text; blocks.

    Raises:
        FaultError: it is not what a definition's file must be.
    """
    if not re.fullmatch(ID_PATTERN, path.stem):
        raise FaultError(f"the file's name must be the agent's: {ID_RULE}")
    try:
        text = read_input(path, _MAX_FILE_BYTES, name="the file").decode("utf-8-sig")
    except UsageError as error:
        raise FaultError(str(error)) from error
    except UnicodeDecodeError as error:
        raise FaultError("is not UTF-8 text") from error
    front, persona = _split(text.replace("\r\n", "\n"))
    try:
        content = decode_yaml(front)
        settings = decode(_SETTINGS, {} if content is None else content, place="front matter")
    except StrictYamlError as error:
        raise FaultError(f"front matter: {error}") from error
    except RequestError as error:
        raise FaultError(str(error)) from error
    if settings.name not in (None, path.stem):
        raise FaultError(f"front matter: name: must be the file's, {path.stem}, or be left out")
    return settings, persona


def _split(text: str) -> tuple[str, str]:
    lines = text.split("\n")
    if lines[0].rstrip() != "---":
        raise FaultError("must begin with front matter between two lines of three hyphens")
    end = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), None)
    if end is None:
        raise FaultError("its front matter does not end; add a line of three hyphens")
    persona = "\n".join(lines[end + 1 :]).strip()
    if len(persona) > TEXT_LIMIT_CHARS:
        raise FaultError(f"its text may have at most {TEXT_LIMIT_CHARS} characters")
    if "\0" in persona:
        raise FaultError("its text holds a NUL character")
    return "\n".join(lines[1:end]), persona
