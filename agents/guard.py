"""The guard: what a tool call may not do, decided before anything happens.

Every call of every backend passes here, calls out of a codemode script included. It keeps honest
agents within their task; a writer's shell is not confined, and what it did is judged when its work
is captured.
"""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agents.filetools.resolve import Place, locate_target
from agents.filetools.tool import ToolFaultError
from agents.loadout import CEILINGS
from engine.core.changes import quote_path
from engine.core.errors import reason_of
from engine.core.ownership import Ownership
from engine.core.paths import has_git_segment
from engine.core.quote import name_list, quote_value
from engine.core.spec import Kind

# Every agent may finish, and scripts do nothing that the guard does not see.
_ALWAYS = frozenset({"submit_result", "codemode"})


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a call is not carried out, and what the model may do instead."""

    message: str


@dataclass(frozen=True, slots=True)
class Guard:
    """What one agent may call.

    Attributes:
        root: the agent's working directory, absolute; a writer's worktree.
        ownership: normalised entries; what a writer may change.
        tools: the loadout, in the order in which the model sees it.
        fold_case: whether the volume of `root` takes names that differ in letter case for one.
        home: what `~` means to the agent's tools.
    """

    kind: Kind
    root: Path
    ownership: tuple[str, ...]
    tools: tuple[str, ...]
    fold_case: bool
    home: str | None = None

    def check(self, tool: str, arguments: object) -> Refusal | None:
        """Return why the call must not be made, or None.

        Looks at the disk for `edit` and `write`, so it is to be called in a thread.
        """
        if tool not in self.tools:
            loadout = name_list(self.tools) or "none"
            return Refusal(
                f"the tool {quote_value(tool)} is not yours to call; yours are: {loadout}"
            )
        if tool not in CEILINGS[self.kind] | _ALWAYS:
            return Refusal(
                f"a {self.kind.value} may not call {quote_value(tool)}; "
                "say in the result what should be done"
            )
        if tool in {"edit", "write"}:
            path = arguments.get("path") if isinstance(arguments, Mapping) else None
            return self._check_target(tool, path)
        return None

    def _check_target(self, tool: str, path: object) -> Refusal | None:
        if not isinstance(path, str):
            return Refusal(f"{tool} needs 'path', a text that names one file")
        try:
            place = locate_target(path, self.root, self.home)
            fault = self._fault(place)
        except ToolFaultError as error:
            return Refusal(f"{error}; {self._owned()}")
        except OSError as error:
            return Refusal(f"{quote_value(path)} cannot be looked at: {reason_of(error)}")
        if fault is None:
            return None
        return Refusal(f"{quote_value(path)} {fault}; {self._owned()}")

    def _fault(self, place: Place) -> str | None:
        if has_git_segment(place.relative):
            return "leads into a .git folder, which is not changed by hand"
        link = _first_link(place)
        if link is not None:
            return f"leads through the symbolic link {quote_path(link)}"
        if not Ownership.build(self.ownership, fold_case=self.fold_case).owns(place.relative):
            return "is not owned by this task"
        return None

    def _owned(self) -> str:
        entries = name_list([quote_value(entry) for entry in self.ownership])
        return f"this task may change {entries or 'nothing'}; put other needs into the result"


def _first_link(place: Place) -> bytes | None:
    """Return the part of `place` that is a symbolic link at this moment, or None."""
    for count in range(1, len(place.parts) + 1):
        path = b"/".join(place.parts[:count])
        try:
            found = (place.root / os.fsdecode(path)).lstat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        if stat.S_ISLNK(found.st_mode):
            return path
    return None
