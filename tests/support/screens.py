"""The screens that the pages of the commands show, as they really look: one play for all pages.

Every command that a page shows is given to the command line of this process, in one repository and
in the order of `ORDER`. What a page calls `1f0c63a2` is the run of its time.
"""

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from pinata.faces import cli
from tests.support.projects import Project, Turn, approves, requests_changes, says, submits
from tests.support.reference import Page, fits

GREETING: Final = "greeting.txt"
RUN: Final = "1f0c63a2"
ORDER: Final = (
    "doctor",
    "agents",
    "tools",
    "run",
    "runs",
    "status",
    "logs",
    "view",
    "transcript",
    "changes",
    "integrate",
    "verify",
    "rollback",
    "repair",
    "resume",
    "rerun",
    "gc",
)
_HELLO = [{"id": "says-hello", "argv": ["grep", "-q", "Hello", GREETING]}]
_FIX = {
    "id": "fix",
    "agent": "builder",
    "task": "Mend the spelling of the greeting.",
    "acceptance": ["greeting.txt says hello"],
    "ownership": [GREETING],
    "checks": _HELLO,
}
_REVIEW = {
    "id": "review-fix",
    "agent": "reviewer",
    "after": ["fix"],
    "reviewOf": "fix",
    "task": "Is it right?",
    "acceptance": ["nothing else changes"],
}
JOB: Final = {
    "approval": "Robin asked for the fix.",
    "tasks": [_FIX, _REVIEW],
    "integratedChecks": _HELLO,
}


def _edits(old: str, new: str) -> Turn:
    return says("edit", path=GREETING, edits=[{"oldText": old, "newText": new}])


def _submits(summary: str) -> Turn:
    return submits(summary=summary, changedFiles=[GREETING])


_FIXES = [_edits("Helo", "Hello"), _submits("Spelled the greeting right.")]
_APPROVES = [approves(summary="Right.")]
APPROVED: Final = {"fix": _FIXES, "review-fix": _APPROVES, "review-fix@2": _APPROVES}
REJECTED: Final = {
    "fix": _FIXES,
    "fix@2": [_edits("world", "world!"), _submits("Ends with a mark.")],
    "review-fix": [requests_changes(summary="It lacks a mark.")],
    "review-fix@2": [approves(summary="Right.")],
}


@dataclass(frozen=True, slots=True)
class Screen:
    """A command, what its page shows, and what it showed.

    Attributes:
        shown: stdout and then stderr.
    """

    command: str
    told: str
    shown: str
    code: int

    @property
    def is_true(self) -> bool:
        """Whether it shows what the page says; ids, times and versions differ."""
        return fits(_masked(self.told), _masked(self.shown))


def _masked(text: str) -> str:
    text = re.sub(r"\b[0-9a-f]{8,64}\b", "<id>", text)
    text = re.sub(r"\b\d{4}-\d\d-\d\d \d\d:\d\d\b", "<date>", text)
    text = re.sub(r"\b\d+\.\d+\.\d+\b", "<version>", text)
    text = re.sub(r"^ +\d+\.\d\d  ", "<time>  ", text, flags=re.MULTILINE)
    return re.sub(r"\b\d+(?:\.\d+)?(?= m?s\b)", "<n>", text)


@dataclass(slots=True)
class Stage:
    """A repository in which commands are given, by a person who stands in it."""

    project: Project
    capture: pytest.CaptureFixture[str]
    run: str = ""

    @classmethod
    def create(cls, folder: Path, capture: pytest.CaptureFixture[str]) -> "Stage":
        """Make the repository, with the job in it."""
        files: dict[str, str | bytes] = {GREETING: "Helo, world\n", "job.json": json.dumps(JOB)}
        project = Project.create(folder, files)
        agent_dir = folder / "agent"
        agent_dir.mkdir()
        project.repo.env["PI_CODING_AGENT_DIR"] = str(agent_dir)
        model = {"provider": "scripted", "id": str(folder / "script.json"), "thinking": "off"}
        (agent_dir / "pinata.json").write_text(json.dumps({"models": {"default": model}}))
        return cls(project, capture)

    def plays(self, script: Mapping[str, list[Turn]]) -> None:
        """Let the agents follow `script` from now on."""
        (self.project.folder / "script.json").write_text(json.dumps(script))

    def give(self, command: str) -> tuple[str, int]:
        """Give a command and return what it shows, and its exit code."""
        _, *words = shlex.split(command.replace(RUN, self.run[:8]))
        code = cli.main(words, self.project.env)
        shown = self.capture.readouterr()
        self.run = max(self.project.runs, key=self._age, default="")
        return shown.out + shown.err, code

    def _folder(self, run: str) -> Path:
        return self.project.repo.root / ".git" / "pinata" / run

    def _age(self, run: str) -> int:
        return (self._folder(run) / "run.json").stat().st_mtime_ns

    def lose(self, *, at_work: bool = False) -> None:
        """Let it look as if the process of the newest run had died after its first task.

        Args:
            at_work: the agent of its second task had begun by then.
        """
        log = self._folder(self.run) / "events.jsonl"
        lines = log.read_text().splitlines(keepends=True)
        settled = next(at for at, line in enumerate(lines) if "agent_settled" in line)
        kept = lines[: settled + 1]
        if at_work:
            kept += [line for line in lines[settled + 1 :] if "agent_started" in line]
        log.write_text("".join(kept))
        for left in self._folder(self.run).glob("*/review-fix*"):
            left.unlink()

    def screens(self, name: str) -> list[Screen]:
        """Give all commands of a page's example."""
        found = []
        for part in Page(f"commands/{name}.md").block("console").split("$ ")[1:]:
            command, told = part.split("\n", 1)
            shown, code = self.give(command)
            found.append(Screen(command, told, shown, code))
        return found
