"""What a definition says to the Pi that is its managed agent: words of a command line; pure."""

from collections.abc import Sequence

from agents.herd_definition import HerdDefinition
from agents.herdsman.errors import invalid
from agents.herdsman.loadout import DELEGATES, refuse_to_take
from agents.loadout import CODEMODE
from agents.pi_settings import PiSettings, path_fault
from engine.core.quote import quote_value


def loadout_options(
    definition: HerdDefinition, mandatory: Sequence[str], home: str | None
) -> tuple[str, ...]:
    """Return how the agent's Pi differs from one without a definition, but for its prompt.

    Args:
        definition: as it holds for the agent.
        mandatory: the names of the tools that no definition takes away.
        home: what `~` stands for.

    Raises:
        HerdError: the definition would take them away with a pattern, or names a path that
            cannot be meant.
    """
    refuse_to_take(definition, mandatory)
    return (*_resources(definition, home), *_tools(definition, mandatory))


def _resources(definition: HerdDefinition, home: str | None) -> tuple[str, ...]:
    skills = () if definition.no_skills else definition.skills or ()
    extensions = () if definition.no_extensions else definition.extensions or ()
    for name, paths in (("skills", skills), ("extensions", extensions)):
        for path in paths:
            fault = path_fault(path)
            if fault is not None:
                raise invalid(
                    f"{name} of definition {definition.name}: {quote_value(path)} {fault}",
                    next_action=f"correct {name} in {definition.file}",
                )
    settings = PiSettings(
        skills=skills,
        inherits_skills=bool(definition.inherit_skills) and not definition.no_skills,
        extensions=extensions,
        reads_instructions=bool(
            definition.inherit_project_context or definition.inherit_global_context
        ),
    )
    scripts = ("-e", f"builtin:{CODEMODE}") if definition.codemode else ()
    return (*settings.options(home), *scripts)


def _tools(definition: HerdDefinition, mandatory: Sequence[str]) -> tuple[str, ...]:
    own = (CODEMODE,) if definition.codemode else ()
    words: tuple[str, ...] = ()
    if definition.tools is not None or definition.no_tools:
        stated = [tool for tool in definition.tools or () if tool != DELEGATES]
        listed = dict.fromkeys((*stated, *mandatory, *(own if stated else ())))
        words = ("--tools", ",".join(listed)) if listed else ("--no-tools",)
    else:
        words = (
            *(("--no-builtin-tools",) if definition.no_builtin_tools else ()),
            *(("--tools", ",".join(f"+{tool}" for tool in own)) if own else ()),
        )
    excluded = [
        each
        for each in definition.exclude_tools or ()
        if each != DELEGATES and each not in mandatory
    ]
    return (*words, *(("--exclude-tools", ",".join(excluded)) if excluded else ()))
