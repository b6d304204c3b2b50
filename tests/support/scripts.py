"""Scripts for tests: run in the real sandbox, with an agent's real tools behind its real guard."""

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agents.budget import BudgetKind
from agents.codemode import codemode_tool
from agents.filetools.registry import TOOLS
from agents.filetools.tool import ToolAnswer
from agents.guard import Guard
from agents.loadout import CODEMODE, DEFAULT_TOOLS
from agents.toolbox import NestedCall, Toolbox, declare
from engine.core.spec import Kind
from tests.support.toolbox import Toolbox as Shop


@dataclass
class Scripter:
    """An agent of one kind with its default tools and codemode.

    Attributes:
        calls: the names of the tools that its scripts called, in order.
        calls_left: how many more calls its scripts may make.
    """

    shop: Shop
    box: Toolbox
    calls: list[str] = field(default_factory=list)
    calls_left: int = 10_000

    @classmethod
    def create(
        cls,
        tmp_path: Path,
        kind: Kind = Kind.READER,
        owned: tuple[str, ...] = (),
    ) -> "Scripter":
        """Make an agent whose working directory is new; a writer owns `owned`."""
        shop = Shop.create(tmp_path)
        names = DEFAULT_TOOLS[kind]
        guard = Guard(kind, shop.root, owned, (*names, CODEMODE), fold_case=False)
        script = codemode_tool([declare(TOOLS[name]) for name in names], shop.mark)
        return cls(shop, Toolbox(names, guard, shop.context, script=script))

    async def run(self, code: str) -> ToolAnswer:
        """Run an indented block of Python and return what the model reads."""
        answer = await self.run_with(self.nested, textwrap.dedent(code))
        assert isinstance(answer, ToolAnswer), answer
        return answer

    async def run_with(self, nested: NestedCall, code: str) -> ToolAnswer | BudgetKind:
        """Run a script whose calls are made in another way."""
        return await self.box.call(CODEMODE, {"code": code}, nested)

    async def text(self, code: str) -> str:
        """Run a script that must come to its end."""
        answer = await self.run(code)
        assert not answer.is_error, answer.text
        return answer.text

    async def fault(self, code: str) -> str:
        """Run a script that must be stopped."""
        answer = await self.run(code)
        assert answer.is_error, answer.text
        return answer.text

    async def nested(self, name: str, arguments: Mapping[str, object]) -> ToolAnswer | BudgetKind:
        """Make a script's call, as the agent's loop does."""
        if self.calls_left == 0:
            return BudgetKind.TOOL_CALLS
        self.calls_left -= 1
        self.calls.append(name)
        return await self.box.call(name, arguments)
