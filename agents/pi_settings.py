"""What a definition says to the Pi that runs its agent; agents in this process know none of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal


@dataclass(frozen=True, slots=True)
class PiSettings:
    """How an agent's Pi differs from one that knows nothing but its task.

    Attributes:
        prompt: whether the agent's prompt follows Pi's own or stands in its place.
        excluded: names of tools that it does not get, with `*` for anything.
        has_tools: off when it gets none but `submit_result`.
        skills: absolute paths, or ones below a home.
        inherits_skills: it has the user's own skills as well.
        extensions: absolute paths, ones below a home, or `builtin:` and a name.
        reads_instructions: it is told what the AGENTS.md files of project and user say.
    """

    prompt: Literal["append", "replace"] = "append"
    excluded: tuple[str, ...] = ()
    has_tools: bool = True
    skills: tuple[str, ...] = ()
    inherits_skills: bool = False
    extensions: tuple[str, ...] = ()
    reads_instructions: bool = False

    def offered(self, tools: Sequence[str]) -> tuple[str, ...]:
        """Return those of `tools` that the agent gets."""
        if not self.has_tools:
            return ()
        return tuple(
            tool for tool in tools if not any(fnmatchcase(tool, each) for each in self.excluded)
        )

    def options(self, home: str | None) -> tuple[str, ...]:
        """Return the words of Pi's command line that say the same, but for prompt and tools.

        Args:
            home: what `~` stands for.
        """
        return (
            *(() if self.inherits_skills else ("--no-skills",)),
            *(word for each in self.skills for word in ("--skill", _expanded(each, home))),
            "--no-extensions",
            *(word for each in self.extensions for word in ("-e", _expanded(each, home))),
            *(() if self.reads_instructions else ("--no-context-files",)),
        )


NOTHING_SAID = PiSettings()


def path_fault(path: str) -> str | None:
    """Return what is wrong with a path of a skill or an extension, None when nothing is.

    One that starts from where the agent works would let a writer decide what its reviewer runs.
    """
    if path.startswith(("/", "~/", "builtin:")):
        return None
    return "must be an absolute path, or start with ~/"


def _expanded(path: str, home: str | None) -> str:
    return home + path[1:] if home is not None and path.startswith("~/") else path
