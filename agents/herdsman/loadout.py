"""Which tools of this process a managed agent gets by name, beside those of the herd. Pure."""

from collections.abc import Collection
from fnmatch import fnmatchcase
from typing import Final

from agents.herd_definition import HerdDefinition
from agents.herdsman.errors import invalid
from agents.loadout import CODEMODE, READING_TOOLS
from engine.core.quote import name_list, quote_value
from engine.core.spec import Kind

# In lists of tools a word that says whether the agent may delegate, and never a tool.
DELEGATES: Final = "agent"
# All that there are, in the order in which an agent that names none has them.
ALL: Final = ("read", "bash", "edit", "write", "grep", "find", "ls")


def offered_tools(definition: HerdDefinition, mandatory: Collection[str]) -> tuple[str, ...]:
    """Return the names of the tools, in the order in which the model sees them.

    A definition that lists tools gets those, else all that there are, or those that change nothing
    where its kind asks for that.

    Args:
        definition: as it holds for the agent.
        mandatory: the names of the herd's tools, which no definition takes away.

    Raises:
        HerdError: it lists tools that agents of this process do not have, or would take one of
            the herd's away.
    """
    refuse_to_take(definition, mandatory)
    own = {DELEGATES, CODEMODE, *mandatory}
    if definition.tools is not None:
        stated = tuple(dict.fromkeys(tool for tool in definition.tools if tool not in own))
    elif definition.no_tools or definition.no_builtin_tools:
        stated = ()
    else:
        stated = READING_TOOLS if definition.kind in (Kind.READER, Kind.REVIEWER) else ALL
    excluded = definition.exclude_tools or ()
    wanted = tuple(
        tool for tool in stated if not any(fnmatchcase(tool, pattern) for pattern in excluded)
    )
    unknown = [quote_value(tool) for tool in wanted if tool not in ALL]
    if unknown:
        raise invalid(
            f"definition {definition.name} lists {name_list(unknown)}, which agents in this "
            "process do not have",
            next_action=f"leave them out of tools in {definition.file}, or have a Pi run the "
            "agent: state backend: process there",
        )
    return wanted


def refuse_to_take(definition: HerdDefinition, mandatory: Collection[str]) -> None:
    """Accept a definition that takes none of the herd's tools away with a pattern.

    One that it excludes by name stays all the same.

    Raises:
        HerdError: it does.
    """
    for pattern in definition.exclude_tools or ():
        if pattern in mandatory or pattern == DELEGATES:
            continue
        hit = next((tool for tool in sorted(mandatory) if fnmatchcase(tool, pattern)), None)
        if hit is not None:
            raise invalid(
                f"definition {definition.name} excludes the tools {quote_value(pattern)}, which "
                f"takes {hit} from the agent",
                next_action=f"list tools by their names in excludeTools of {definition.file}",
            )
