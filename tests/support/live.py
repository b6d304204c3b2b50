"""A `pinata` that is still at work: its lines as they come, and what it leaves behind."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.projects import Project
from tests.support.starter import Started, started

Line = dict[str, Any]


@dataclass(slots=True)
class Live:
    """A running command whose events are read from its stdout."""

    process: Started

    def wait_event(self, wanted: str) -> Line:
        """Return the next event of a type; the command must not end before it."""
        for text in self.process.stdout:
            line: Line = json.loads(text)
            if line["type"] == wanted:
                return line
        raise AssertionError(f"no {wanted}: {self.end()}")

    def end(self) -> tuple[int, str, str]:
        """Wait for the end, and return exit code and what is left of stdout and stderr."""
        out, err = self.process.communicate()
        return self.process.wait(), out, err


@contextmanager
def live(project: Project, *arguments: str, **environment: str) -> Iterator[Live]:
    """Start a command in the project; it is killed at the end of the block if it still runs."""
    env = project.program_env | environment
    with started(arguments, cwd=project.repo.root, env=env) as process:
        yield Live(process)


def agents_left(project: Project) -> list[str]:
    """Return the command lines of what still runs of agents and checks of the project's runs."""
    mine = {("PINATA_AGENT", "1"), ("HOME", project.env["HOME"])}
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            pairs = (entry / "environ").read_bytes().decode(errors="replace").split("\0")
            if mine <= {pair.partition("=")[::2] for pair in pairs}:
                found.append((entry / "cmdline").read_bytes().decode(errors="replace"))
        except OSError:
            continue
    return found
