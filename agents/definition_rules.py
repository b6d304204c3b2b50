"""Turns the settings of a definition into what runs and the herd use, if they stand together."""

from agents.definition import Definition, Source
from agents.definition_file import FaultError, FrontMatter
from agents.herd_definition import HerdDefinition, Passage, herd_definition
from agents.loadout import CEILINGS, DEFAULT_TOOLS, WEB_TOOLS
from agents.pi_settings import PiSettings, path_fault
from engine.core.quote import quote_value
from engine.core.spec import Kind


def build(
    name: str,
    settings: FrontMatter,
    passages: tuple[Passage, ...],
    sources: tuple[Source, ...],
    file: str,
) -> tuple[HerdDefinition, Definition | None]:
    """Return what the herd can launch and what runs can use, which is None without a kind.

    Args:
        name: the definition's.
        settings: of all its files together.
        passages: the texts of all its files.
        sources: of its files, the lowest first.
        file: the uppermost of them, for people.

    Raises:
        FaultError: the settings do not stand together.
    """
    if settings.description is None:
        raise FaultError("has no description; say in one sentence what it is for")
    if not passages:
        raise FaultError("has no text below its front matter; describe the agent there")
    if len(set(settings.agents or ())) != len(settings.agents or ()):
        raise FaultError("agents: names a definition twice; remove one")
    model = _model(settings.model)
    herd = herd_definition(
        name, settings, passages=passages, model=model, sources=sources, file=file
    )
    if settings.require_sources and settings.kind is not Kind.READER:
        raise FaultError("requireSources: is for readers; remove it")
    if settings.kind is None:
        return herd, None
    definition = Definition(
        name=name,
        kind=settings.kind,
        description=settings.description,
        tools=_tools(settings.kind, settings.tools),
        persona=herd.persona,
        model=model,
        thinking=settings.thinking,
        backend=settings.backend,
        codemode=settings.codemode,
        require_sources=bool(settings.require_sources),
        pi=_pi(settings),
        source=sources[-1],
    )
    return herd, definition


def _pi(settings: FrontMatter) -> PiSettings:
    for name, paths in (("skills", settings.skills), ("extensions", settings.extensions)):
        for path in paths or ():
            fault = path_fault(path)
            if fault is not None:
                raise FaultError(f"{name}: {quote_value(path)} {fault}")
    has_none = settings.tools is None and (settings.no_tools or settings.no_builtin_tools)
    inherits = settings.inherit_project_context or settings.inherit_global_context
    return PiSettings(
        prompt=settings.system_prompt_mode or "append",
        excluded=settings.exclude_tools or (),
        has_tools=not has_none,
        skills=() if settings.no_skills else settings.skills or (),
        inherits_skills=bool(settings.inherit_skills) and not settings.no_skills,
        extensions=() if settings.no_extensions else settings.extensions or (),
        reads_instructions=bool(inherits),
    )


def _tools(kind: Kind, listed: tuple[str, ...] | None) -> tuple[str, ...]:
    if listed is None:
        return DEFAULT_TOOLS[kind]
    if not listed:
        raise FaultError("tools: is empty; leave it out to get the usual ones")
    if len(set(listed)) != len(listed):
        raise FaultError("tools: names a tool twice; remove one")
    beyond = [tool for tool in listed if tool not in CEILINGS[kind]]
    if beyond:
        allowed = ", ".join(sorted(CEILINGS[kind]))
        raise FaultError(f"tools: a {kind.value} may not have {beyond[0]}; it may have {allowed}")
    web = [tool for tool in listed if tool in WEB_TOOLS]
    if web:
        raise FaultError(f"tools: {web[0]} needs a web extension, which this release does not load")
    return listed


def _model(text: str | None) -> tuple[str, str] | None:
    if text is None:
        return None
    provider, slash, model = text.partition("/")
    if not (provider and slash and model):
        raise FaultError("model: must be a provider and an id with a slash between them")
    return provider, model
