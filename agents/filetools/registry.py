"""All file tools, in the order in which models see them."""

from collections.abc import Mapping
from types import MappingProxyType

from agents.filetools.bash import BASH
from agents.filetools.edit import EDIT
from agents.filetools.find import FIND
from agents.filetools.grep import GREP
from agents.filetools.ls import LS
from agents.filetools.read import READ
from agents.filetools.tool import Tool
from agents.filetools.write import WRITE

TOOLS: Mapping[str, Tool] = MappingProxyType(
    {tool.name: tool for tool in (READ, GREP, FIND, LS, BASH, EDIT, WRITE)}
)
