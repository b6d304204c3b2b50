"""What a session was answered in a story in which every tool for managed agents is called.

The story is told in `tests.support.herd_plays`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agents.herdsman.controller import Controller
from pinata import app
from pinata.tools.herd import call_herd
from pinata.tools.registry import Answer
from pinata.work.context import Context
from pinata.work.observer import Silence
from tests.support.reference import Page

# Where pages have their reader work, and the place of it below the folder of the story.
_PLACES = {"/home/robin/till": "tree", "/home/robin/.pi/agent": "home/agent"}
ANY, ANY_AGENT, FILES = "every tool", "an agent", "files"


@dataclass(frozen=True, slots=True)
class Told:
    """An answer, and the table that describes it."""

    shape: str
    answer: Answer


@dataclass(slots=True)
class HerdStory:
    """What was answered and what was refused.

    Attributes:
        folder: where it is played.
        examples: the answers to the calls that pages show, by tool.
        refused: errors, by the tool whose page tells of them, or by what they have in common.
    """

    folder: Path
    told: list[Told] = field(default_factory=list)
    examples: dict[str, Answer] = field(default_factory=dict)
    refused: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)

    async def call(self, by: Controller, tool: str, **arguments: object) -> Answer:
        """Make a call that is answered."""
        answer = await call_herd(_context(by), tool, arguments)
        assert answer["ok"], answer
        self.told.append(Told(f"tools/{tool}.md#answer", answer))
        return answer

    async def show(self, by: Controller, tool: str, **ids: object) -> None:
        """Make the call that the tool's page shows; `ids` are what cannot be foreseen in it."""
        arguments = {**Page(f"tools/{tool}.md").json("call"), **ids}
        self.examples[tool] = await self.call(by, tool, **arguments)

    async def refuse(
        self, by: Controller, tool: str, *, of: str | None = None, **arguments: object
    ) -> None:
        """Make a call that is refused, for a reason that the page of the tool, or `of`, tells."""
        answer = await call_herd(_context(by), tool, arguments)
        assert not answer["ok"], answer
        self.told.append(Told("herd.md#a-refusal", answer))
        self.refused.setdefault(of or tool, []).append(answer["error"])

    def localised(self, shown: Answer) -> Answer:
        """Return what a page shows as it is where the story is played."""
        text = json.dumps(shown)
        for place, below in _PLACES.items():
            text = text.replace(place, str(self.folder / below))
        found: Answer = json.loads(text)
        return found


def _context(by: Controller) -> Context:
    context = app.build_context({"HOME": by.caller.cwd}, Path(by.caller.cwd), Silence())
    return replace(context, herd=by)
