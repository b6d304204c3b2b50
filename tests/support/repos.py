"""Repositories for tests, built by the git program in an environment of their own."""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from engine.core.ids import CommitId, RunId
from worktrees.discovery import discover
from worktrees.hygiene import Repository

RUN = RunId("run-1")

_IDENTITY = {
    "GIT_AUTHOR_NAME": "Somebody",
    "GIT_AUTHOR_EMAIL": "somebody@example.org",
    "GIT_AUTHOR_DATE": "2020-01-01T12:00:00Z",
    "GIT_COMMITTER_NAME": "Somebody",
    "GIT_COMMITTER_EMAIL": "somebody@example.org",
    "GIT_COMMITTER_DATE": "2020-01-01T12:00:00Z",
}
# What Git would start after a commit, to find that there is nothing to tidy up.
_NO_UPKEEP = ("-c", "maintenance.auto=false")


def git_env(home: Path) -> dict[str, str]:
    """Return an environment in which Git finds no configuration but the repository's."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / "config"),
        "LC_ALL": "C.UTF-8",
    }


@dataclass(frozen=True, slots=True)
class _Folder:
    """What a folder holds, by paths relative to it; a folder stands before what is in it."""

    folders: tuple[Path, ...]
    files: tuple[tuple[Path, bytes, int], ...]

    @classmethod
    def read(cls, root: Path) -> Self:
        paths = sorted(root.rglob("*"))
        return cls(
            tuple(path.relative_to(root) for path in paths if path.is_dir()),
            tuple(
                (path.relative_to(root), path.read_bytes(), path.stat().st_mode)
                for path in paths
                if path.is_file()
            ),
        )

    def write(self, root: Path) -> None:
        root.mkdir()
        for folder in self.folders:
            (root / folder).mkdir()
        for path, content, mode in self.files:
            (root / path).write_bytes(content)
            (root / path).chmod(mode)


# Git's private files after the first commit, by what that commit holds.
_private: dict[tuple[tuple[str, str | bytes], ...], _Folder] = {}


@dataclass(frozen=True, slots=True)
class RepoBuilder:
    """A checkout in the making; its methods do what a user would do there.

    They block, and may be called from a test that runs on a trio loop: each of them runs Git in a
    thread of its own and waits.
    """

    root: Path
    env: dict[str, str]

    @classmethod
    def create(cls, root: Path, files: dict[str, str | bytes] | None = None) -> Self:
        """Make a repository at `root` with one commit that holds `files`.

        Git makes the first one with these files. The next ones get the same private files, and Git
        only looks at the checkout.
        """
        home = root.with_name(f"{root.name}-home")
        home.mkdir()
        root.mkdir()
        builder = cls(root, git_env(home))
        held = files or {"kept.txt": "kept\n"}
        for path, content in held.items():
            builder.write(path, content)
        private = _private.get(key := tuple(held.items()))
        if private is None:
            builder.git("init", "--quiet", "--initial-branch=main")
            builder.commit("first")
            _private[key] = _Folder.read(root / ".git")
        else:
            private.write(root / ".git")
            builder.git("update-index", "--refresh")
        return builder

    @property
    def home(self) -> Path:
        """The home folder whose Git configuration applies here."""
        return Path(self.env["HOME"])

    def git(
        self, *arguments: str | bytes, stdin: bytes = b"", env: dict[str, str] | None = None
    ) -> bytes:
        """Run git in the checkout as its user; return stdout, fail the test if it fails."""
        whole = self.env | _IDENTITY | {"GIT_CONFIG_NOSYSTEM": "1"} | (env or {})
        with ThreadPoolExecutor(1) as thread:
            done = thread.submit(
                lambda: subprocess.run(
                    ["git", *_NO_UPKEEP, *arguments],
                    cwd=self.root,
                    env=whole,
                    input=stdin,
                    capture_output=True,
                    check=False,
                )
            ).result()
        assert done.returncode == 0, (arguments, done.stderr)
        return done.stdout

    def ask(self, *arguments: str | bytes) -> str:
        """Run git and return its answer without the line's end."""
        return os.fsdecode(self.git(*arguments)).rstrip("\n")

    def place(self, path: str | bytes | Path) -> Path:
        """Return where `path` lies on disk, with its folder made if need be."""
        place = self.root / os.fsdecode(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        return place

    def write(self, path: str | bytes | Path, content: str | bytes) -> Path:
        """Write a file in place, keeping its inode if it exists."""
        place = self.place(path)
        place.write_bytes(content if isinstance(content, bytes) else content.encode())
        return place

    def commit(self, message: str) -> CommitId:
        """Commit everything that is not ignored."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return CommitId(self.ask("rev-parse", "HEAD"))

    def store(self, content: bytes) -> str:
        """Store a blob as it is and return its id."""
        return os.fsdecode(self.git("hash-object", "-w", "--stdin", stdin=content)).strip()

    def listing(self, tree: str) -> dict[bytes, tuple[str, str]]:
        """Return the mode and object id of everything in `tree`, by path."""
        out = self.git("ls-tree", "-r", "-z", "--full-tree", tree)
        found: dict[bytes, tuple[str, str]] = {}
        for record in out.split(b"\0")[:-1]:
            facts, _, path = record.partition(b"\t")
            mode, _, object_id = facts.decode().split(" ")
            found[path] = (mode, object_id)
        return found

    def content(self, tree: str, path: str) -> bytes:
        """Return what `tree` holds at `path`."""
        return self.git("cat-file", "blob", f"{tree}:{path}")

    def facts(self) -> dict[str, bytes]:
        """Return what a user could tell apart: the index's bytes, HEAD, refs, status, stash."""
        index = Path(self.ask("rev-parse", "--path-format=absolute", "--git-path", "index"))
        stat = index.stat() if index.exists() else None
        return {
            "index": index.read_bytes() if stat else b"",
            "index time": str(stat.st_mtime_ns).encode() if stat else b"",
            "head": self.git("rev-parse", "--symbolic-full-name", "HEAD"),
            "refs": self.git("for-each-ref", "refs/heads", "refs/tags", "refs/stash"),
            "status": self.git(
                "--no-optional-locks", "status", "--porcelain=v2", "-z", "-uall", "--ignored"
            ),
            "staged": self.git("--no-optional-locks", "diff", "--cached", "--binary"),
        }

    def add_hooks(self, trace: Path) -> None:
        """Install every hook that the engine's own calls could run; each leaves a trace."""
        names = ("post-checkout", "post-index-change", "reference-transaction", "pre-commit")
        folder = Path(self.ask("rev-parse", "--path-format=absolute", "--git-path", "hooks"))
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            hook = folder / name
            hook.write_text(f"#!/bin/sh\necho {name} >> {trace}\n")
            hook.chmod(0o755)

    async def discovered(self) -> Repository:
        """Return the checkout as the engine finds it."""
        return await discover(self.root, self.env)
