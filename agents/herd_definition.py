"""What a definition says to the herd: the settings of a managed agent, as its files state them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from agents.definition import Source
from agents.definition_file import FrontMatter
from engine.core.spec import Backend, Kind, Thinking


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a definition's text, from one of its files.

    Attributes:
        folder: where that file lies, absolute; relative references in the text start there.
        text: not empty, without blank lines around it.
    """

    folder: str
    text: str


@dataclass(frozen=True, slots=True)
class HerdDefinition:
    """A definition as a managed agent is launched from it.

    What is None was not stated, which is not the same as an empty list.

    Attributes:
        kind: makes the definition usable in runs too.
        persona: the text of the definition, ending in one newline.
        model: provider and id.
        permission: passed on to the agent's Pi unread.
        agents: names of the definitions that its agents may delegate to.
        sources: of the files that it is made of, the lowest first.
        passages: what `persona` is made of, in its order.
        file: the one that had the last word, absolute, for people: to be corrected there.
    """

    name: str
    description: str
    persona: str
    sources: tuple[Source, ...]
    enabled: bool = True
    kind: Kind | None = None
    model: tuple[str, str] | None = None
    thinking: Thinking | None = None
    backend: Backend | None = None
    codemode: bool | None = None
    tools: tuple[str, ...] | None = None
    exclude_tools: tuple[str, ...] | None = None
    no_tools: bool | None = None
    no_builtin_tools: bool | None = None
    system_prompt_mode: Literal["append", "replace"] | None = None
    permission: object = None
    no_skills: bool | None = None
    inherit_skills: bool | None = None
    skills: tuple[str, ...] | None = None
    no_extensions: bool | None = None
    extensions: tuple[str, ...] | None = None
    agents: tuple[str, ...] | None = None
    inherit_project_context: bool | None = None
    inherit_global_context: bool | None = None
    passages: tuple[Passage, ...] = ()
    file: str = ""


# What stands in front matter under the same name and with the same meaning.
_AS_STATED = (
    "backend",
    "codemode",
    "tools",
    "exclude_tools",
    "no_tools",
    "no_builtin_tools",
    "system_prompt_mode",
    "permission",
    "no_skills",
    "inherit_skills",
    "skills",
    "no_extensions",
    "extensions",
    "agents",
    "inherit_project_context",
    "inherit_global_context",
    "kind",
    "thinking",
)


def herd_definition(
    name: str,
    settings: FrontMatter,
    *,
    passages: tuple[Passage, ...],
    model: tuple[str, str] | None,
    sources: tuple[Source, ...],
    file: str,
) -> HerdDefinition:
    """Return what the herd launches from settings that stand together."""
    assert settings.description is not None
    return HerdDefinition(
        name=name,
        description=settings.description,
        persona=joined(passages) + "\n",
        passages=passages,
        sources=sources,
        file=file,
        enabled=settings.enabled is not False,
        model=model,
        **{field: getattr(settings, field) for field in _AS_STATED},
    )


def joined(passages: Iterable[Passage]) -> str:
    """Return the text that passages make together."""
    return "\n\n".join(passage.text for passage in passages)
