"""Which tools an agent gets, and the most that each kind of agent may have.

`submit_result` is not among them: every agent has it.
"""

from collections.abc import Mapping
from types import MappingProxyType

from engine.core.spec import Kind

CODEMODE = "codemode"
READING_TOOLS = ("read", "grep", "find", "ls")
WRITING_TOOLS = ("read", "bash", "edit", "write")
WEB_TOOLS = ("web_enable", "web_search", "fetch_content", "get_search_content")

# What a definition gets that lists no tools, in the order in which a model sees them.
DEFAULT_TOOLS: Mapping[Kind, tuple[str, ...]] = MappingProxyType(
    {Kind.READER: READING_TOOLS, Kind.REVIEWER: READING_TOOLS, Kind.WRITER: WRITING_TOOLS}
)

# The most that a definition of each kind may list; codemode is a setting of its own.
CEILINGS: Mapping[Kind, frozenset[str]] = MappingProxyType(
    {
        Kind.READER: frozenset({*READING_TOOLS, *WEB_TOOLS}),
        Kind.REVIEWER: frozenset({*READING_TOOLS, *WEB_TOOLS}),
        Kind.WRITER: frozenset({*READING_TOOLS, *WRITING_TOOLS}),
    }
)
