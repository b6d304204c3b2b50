"""The file tools, ready to be called in a test."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import trio

from agents.filetools.registry import TOOLS
from agents.filetools.tool import ToolAnswer, ToolContext
from tests.support.guard import blocking_allowed


@dataclass(frozen=True, slots=True)
class Toolbox:
    """Calls tools in the working directory `root` the way an agent's loop does."""

    root: Path
    env: dict[str, str]
    mark: str | None = None

    @classmethod
    def create(cls, tmp_path: Path) -> "Toolbox":
        """Make a working directory that is a repository without commits, and a home beside it."""
        root, home = tmp_path / "work", tmp_path / "home"
        root.mkdir()
        home.mkdir()
        env = {"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(home)}
        box = cls(root, env)
        box.git("init", "--quiet")
        return box

    def git(self, *args: str) -> bytes:
        """Run Git in the working directory and return its output."""
        with blocking_allowed():
            return subprocess.run(
                ["git", *args], cwd=self.root, env=self.env, check=True, stdout=subprocess.PIPE
            ).stdout

    def put(self, name: str, content: str | bytes) -> Path:
        """Write a file with its parents, and return its path."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def names(self, folder: str = ".") -> list[str]:
        """Return the sorted names in a folder, without Git's own."""
        return sorted(path.name for path in (self.root / folder).iterdir() if path.name != ".git")

    @property
    def context(self) -> ToolContext:
        """What tools are told about where they work."""
        return ToolContext(self.root, self.env, self.mark, self._list_files, "sh")

    async def _list_files(self) -> tuple[bytes, ...]:
        listed = await trio.to_thread.run_sync(
            self.git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"
        )
        return tuple(listed.split(b"\0")[:-1])

    async def call(self, tool: str, **arguments: object) -> ToolAnswer:
        """Call `tool` and return its answer."""
        return await TOOLS[tool].run(self.context, arguments)

    async def text(self, tool: str, **arguments: object) -> str:
        """Call `tool`, which must do what it is asked, and return what the model reads."""
        answer = await self.call(tool, **arguments)
        assert not answer.is_error, answer.text
        return answer.text

    async def fault(self, tool: str, **arguments: object) -> str:
        """Call `tool`, which must refuse, and return what the model reads."""
        answer = await self.call(tool, **arguments)
        assert answer.is_error, answer.text
        return answer.text
