"""What an agent definition is: its kind, its tools, its persona, and the digest of all of it."""

from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from agents.pi_settings import NOTHING_SAID, PiSettings
from engine.core.errors import CorruptionError
from engine.core.fingerprint import Json, digest
from engine.core.spec import Backend, Kind, Thinking
from engine.records.fields import Many
from engine.records.model import BackendField, ThinkingField
from engine.records.request import Request, explain


class Source(Enum):
    """Where a definition comes from."""

    PRESET = "preset"
    PROJECT = "project"
    USER = "user"


@dataclass(frozen=True, slots=True)
class Definition:
    """A named agent that tasks can choose.

    Attributes:
        tools: in the order in which the model sees them; never empty, within the kind's ceiling.
        persona: the text of the definition, ending in one newline.
        model: provider and id; None leaves the choice to the configuration.
        codemode: None leaves the choice to the configuration.
        require_sources: a reader's result must name at least one source.
        pi: what it says to a Pi that runs the agent.
        source: of the file that had the last word; not part of the digest.
    """

    name: str
    kind: Kind
    description: str
    tools: tuple[str, ...]
    persona: str
    model: tuple[str, str] | None = None
    thinking: Thinking | None = None
    backend: Backend | None = None
    codemode: bool | None = None
    require_sources: bool = False
    pi: PiSettings = NOTHING_SAID
    source: Source = Source.PRESET

    @property
    def digest(self) -> str:
        """SHA-256, in hex, over everything that decides how the agent behaves."""
        return digest(_settings(self))


def _settings(definition: Definition) -> dict[str, Json]:
    said: dict[str, Json] = {
        "name": definition.name,
        "kind": definition.kind.value,
        "description": definition.description,
        "tools": list(definition.tools),
        "persona": definition.persona,
        "model": None if definition.model is None else list(definition.model),
        "thinking": definition.thinking and definition.thinking.value,
        "backend": definition.backend and definition.backend.value,
        "codemode": definition.codemode,
        "requireSources": definition.require_sources,
    }
    pi = definition.pi
    if pi != NOTHING_SAID:
        said["pi"] = {
            "prompt": pi.prompt,
            "excluded": list(pi.excluded),
            "hasTools": pi.has_tools,
            "skills": list(pi.skills),
            "inheritsSkills": pi.inherits_skills,
            "extensions": list(pi.extensions),
            "readsInstructions": pi.reads_instructions,
        }
    return said


class PiSettingsV1(Request):
    """What a stored definition says to Pi."""

    prompt: Literal["append", "replace"]
    excluded: Many[str]
    has_tools: bool
    skills: Many[str]
    inherits_skills: bool
    extensions: Many[str]
    reads_instructions: bool


class DefinitionV1(Request):
    """A definition as it is stored with a run that uses it."""

    version: Literal[1]
    name: str
    kind: Annotated[Kind, Field(strict=False)]
    description: str
    tools: Many[str]
    persona: str
    model: Annotated[tuple[str, str], Field(strict=False)] | None
    thinking: ThinkingField | None
    backend: BackendField | None
    codemode: bool | None
    require_sources: bool
    pi: PiSettingsV1 | None = None
    source: Annotated[Source, Field(strict=False)]
    digest: str


def encode_definition(definition: Definition) -> dict[str, Json]:
    """Return the JSON form that is stored with a run."""
    return {
        "version": 1,
        **_settings(definition),
        "source": definition.source.value,
        "digest": definition.digest,
    }


def decode_definition(stored: object) -> Definition:
    """Return the definition that `encode_definition` wrote.

    Raises:
        CorruptionError: it is not one, or its digest does not match its text.
    """
    try:
        record = DefinitionV1.model_validate(stored)
    except ValidationError as error:
        raise CorruptionError(f"a stored definition is damaged: {explain(error)}") from error
    definition = Definition(
        name=record.name,
        kind=record.kind,
        description=record.description,
        tools=record.tools,
        persona=record.persona,
        model=record.model,
        thinking=record.thinking,
        backend=record.backend,
        codemode=record.codemode,
        require_sources=record.require_sources,
        pi=NOTHING_SAID if record.pi is None else PiSettings(**dict(record.pi)),
        source=record.source,
    )
    if definition.digest != record.digest:
        raise CorruptionError(
            f"the stored definition {definition.name!r} is not what its digest says"
        )
    return definition
