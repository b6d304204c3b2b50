"""Finds agent definitions: Markdown files with YAML front matter, layered folder over folder.

One bad file never hides another definition: it makes its own name unavailable, with the reason.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter

from agents.definition import Definition, Source
from agents.loadout import CEILINGS, DEFAULT_TOOLS, WEB_TOOLS
from agents.strict_yaml import StrictYamlError, decode_yaml
from engine.core.spec import Kind
from engine.records.fields import ID_PATTERN, ID_RULE, TEXT_LIMIT_CHARS, Many, NotNull
from engine.records.model import BackendField, ThinkingField
from engine.records.request import Request, RequestError, decode

BUNDLED_FOLDER = Path(__file__).parent / "definitions"
_MAX_FILE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Unavailable:
    """A definition that cannot be used, and why."""

    name: str
    source: Source
    reason: str


@dataclass(frozen=True, slots=True)
class Roster:
    """The definitions that tasks can choose from, by name, and those that have a fault.

    Attributes:
        definitions: sorted by name.
        unavailable: sorted by name; no name stands in both.
        notices: sentences for the caller, such as which bundled definition was overlaid.
    """

    definitions: Mapping[str, Definition]
    unavailable: tuple[Unavailable, ...] = ()
    notices: tuple[str, ...] = ()

    @property
    def kinds(self) -> dict[str, Kind]:
        """The kind of each definition that can be used."""
        return {name: definition.kind for name, definition in self.definitions.items()}

    @property
    def reasons(self) -> dict[str, str]:
        """Why each unavailable definition cannot be used."""
        return {each.name: each.reason for each in self.unavailable}


class _FrontMatter(Request):
    """The settings of one file; an overlay states only what it changes."""

    description: Annotated[
        str | None, NotNull(), Field(min_length=1, max_length=1000, description="text")
    ] = None
    kind: Annotated[
        Kind | None, NotNull(), Field(strict=False, description="reader, writer or reviewer")
    ] = None
    tools: Annotated[Many[str] | None, NotNull(), Field(description="a list of tool names")] = None
    model: Annotated[
        str | None,
        NotNull(),
        Field(description="a provider and a model's id with a slash between them"),
    ] = None
    thinking: Annotated[ThinkingField | None, NotNull()] = None
    backend: Annotated[BackendField | None, NotNull()] = None
    codemode: Annotated[bool | None, NotNull(), Field(description="true or false")] = None
    require_sources: Annotated[bool | None, NotNull(), Field(description="true or false")] = None


_SETTINGS: TypeAdapter[_FrontMatter] = TypeAdapter(_FrontMatter)


class _FaultError(ValueError):
    """A definition cannot be used; the message is the reason that people read."""


@dataclass(slots=True)
class _Draft:
    """What the layers so far say about one name."""

    source: Source
    fault: str | None = None
    settings: _FrontMatter = field(default_factory=_FrontMatter)
    persona: str = ""


def load_roster(
    folders: Sequence[tuple[Source, Path]] = ((Source.PRESET, BUNDLED_FOLDER),),
    *,
    web_tools: bool = False,
) -> Roster:
    """Read the definitions of all folders; blocks, so call it in a thread.

    A later file of a name overlays the earlier one: settings that it states replace those below,
    and so does its text unless it is empty. It cannot change the kind. A folder that is not there
    holds nothing.

    Args:
        folders: lowest layer first.
        web_tools: whether something provides the tools that reach the web.
    """
    drafts: dict[str, _Draft] = {}
    notices: list[str] = []
    for source, folder in folders:
        for path in _files(folder):
            below = drafts.get(path.stem)
            drafts[path.stem] = _layer(path, source, below)
            if below is not None:
                notices.append(_overlay_notice(path.stem, source, below))
    definitions: dict[str, Definition] = {}
    unavailable: list[Unavailable] = []
    for name, draft in sorted(drafts.items()):
        try:
            definitions[name] = _definition(name, draft, web_tools=web_tools)
        except _FaultError as fault:
            unavailable.append(Unavailable(name, draft.source, str(fault)))
    return Roster(definitions, tuple(unavailable), tuple(notices))


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.glob("*.md") if not path.name.endswith(".example.md"))


def _layer(path: Path, source: Source, below: _Draft | None) -> _Draft:
    """Return what is known about the file's name once its settings lie over those `below`."""
    draft = _Draft(source) if below is None else replace(below, source=source, fault=None)
    kind = draft.settings.kind
    try:
        stated, persona = _read(path)
    except _FaultError as fault:
        draft.fault = f"{path.name}: {fault}"
        return draft
    if kind is not None and stated.kind not in (None, kind):
        rest = f"an overlay cannot change the kind {kind.value}; use another name"
        draft.fault = f"{path.name}: {rest}"
        return draft
    draft.settings = draft.settings.model_copy(update=stated.model_dump(exclude_unset=True))
    draft.persona = persona or draft.persona
    return draft


def _overlay_notice(name: str, source: Source, below: _Draft) -> str:
    if below.fault is not None:
        return f"agent {name}: the {below.source.value} definition is left out: {below.fault}"
    return f"agent {name}: the {source.value} definition overlays the {below.source.value} one"


def _read(path: Path) -> tuple[_FrontMatter, str]:
    """Return the settings that a file states, and its text."""
    if not re.fullmatch(ID_PATTERN, path.stem):
        raise _FaultError(f"the file's name must be the agent's: {ID_RULE}")
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_FILE_BYTES + 1)
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise _FaultError(f"cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise _FaultError("is not UTF-8 text") from error
    if len(data) > _MAX_FILE_BYTES:
        raise _FaultError("is larger than 1 MiB")
    front, persona = _split(text.replace("\r\n", "\n"))
    try:
        content = decode_yaml(front)
        settings = decode(_SETTINGS, {} if content is None else content, place="front matter")
    except StrictYamlError as error:
        raise _FaultError(f"front matter: {error}") from error
    except RequestError as error:
        raise _FaultError(str(error)) from error
    return settings, persona


def _split(text: str) -> tuple[str, str]:
    lines = text.split("\n")
    if lines[0].rstrip() != "---":
        raise _FaultError("must begin with front matter between two lines of three hyphens")
    end = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), None)
    if end is None:
        raise _FaultError("its front matter does not end; add a line of three hyphens")
    persona = "\n".join(lines[end + 1 :]).strip()
    if len(persona) > TEXT_LIMIT_CHARS:
        raise _FaultError(f"its text may have at most {TEXT_LIMIT_CHARS} characters")
    if "\0" in persona:
        raise _FaultError("its text holds a NUL character")
    return "\n".join(lines[1:end]), persona


def _definition(name: str, draft: _Draft, *, web_tools: bool) -> Definition:
    if draft.fault is not None:
        raise _FaultError(draft.fault)
    settings = draft.settings
    if settings.description is None:
        raise _FaultError("has no description; say in one sentence what it is for")
    if settings.kind is None:
        raise _FaultError("has no kind; add reader, writer or reviewer to use it in runs")
    if not draft.persona:
        raise _FaultError("has no text below its front matter; describe the agent there")
    return Definition(
        name=name,
        kind=settings.kind,
        description=settings.description,
        tools=_tools(settings.kind, settings.tools, web_tools=web_tools),
        persona=draft.persona + "\n",
        model=_model(settings.model),
        thinking=settings.thinking,
        backend=settings.backend,
        codemode=settings.codemode,
        require_sources=_require_sources(settings.kind, wanted=settings.require_sources),
        source=draft.source,
    )


def _tools(kind: Kind, listed: tuple[str, ...] | None, *, web_tools: bool) -> tuple[str, ...]:
    if listed is None:
        return DEFAULT_TOOLS[kind]
    if not listed:
        raise _FaultError("tools: is empty; leave it out to get the usual ones")
    if len(set(listed)) != len(listed):
        raise _FaultError("tools: names a tool twice; remove one")
    beyond = [tool for tool in listed if tool not in CEILINGS[kind]]
    if beyond:
        allowed = ", ".join(sorted(CEILINGS[kind]))
        raise _FaultError(f"tools: a {kind.value} may not have {beyond[0]}; it may have {allowed}")
    missing = [tool for tool in listed if tool in WEB_TOOLS]
    if missing and not web_tools:
        raise _FaultError(f"tools: {missing[0]} needs a web extension, and none was found")
    return listed


def _model(text: str | None) -> tuple[str, str] | None:
    if text is None:
        return None
    provider, slash, model = text.partition("/")
    if not (provider and slash and model):
        raise _FaultError("model: must be a provider and an id with a slash between them")
    return provider, model


def _require_sources(kind: Kind, *, wanted: bool | None) -> bool:
    if wanted and kind is not Kind.READER:
        raise _FaultError("requireSources: is for readers; remove it")
    return bool(wanted)
