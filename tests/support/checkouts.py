"""Checkouts as a user sees them, and changes to bring into them."""

import os
import shutil
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine.core.changes import Change
from engine.core.ids import TreeId
from tests.support.repos import RepoBuilder
from worktrees.apply import load_journal, prepare
from worktrees.exchange import MOVERS, Mover
from worktrees.hygiene import Repository
from worktrees.journal import Journal, JournalState
from worktrees.patch import changes_between
from worktrees.state import measure

EVIDENCE = "e" * 64


def listing(root: Path) -> dict[str, tuple[int, bytes]]:
    """Return everything below `root` but its Git folder: mode and content, for a folder none."""
    found: dict[str, tuple[int, bytes]] = {}
    for folder, folders, files in os.walk(root):
        if folder == str(root):
            folders[:] = [name for name in folders if name != ".git"]
        for name in (*folders, *files):
            path = Path(folder, name)
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                content = os.fsencode(path.readlink())
            else:
                content = path.read_bytes() if stat.S_ISREG(mode) else b""
            found[str(path.relative_to(root))] = (mode, content)
    return found


@dataclass(frozen=True, slots=True)
class Setting:
    """A checkout, and changes that start from what it holds now.

    Attributes:
        before: the listing of the checkout.
        after: what it must be once the changes are applied.
        folder: for the run's integration; it does not exist yet.
    """

    repo: Repository
    changes: tuple[Change, ...]
    before: dict[str, tuple[int, bytes]]
    after: dict[str, tuple[int, bytes]]
    folder: Path

    def with_folder(self, folder: Path) -> "Setting":
        """Return the same with another folder for the run's integration."""
        return replace(self, folder=folder)

    async def prepare(
        self, changes: Sequence[Change] | None = None, *, movers: tuple[Mover, ...] = MOVERS
    ) -> Journal:
        """Prepare the integration of the changes, or of others."""
        state = await measure(self.repo, self.repo.common_dir)
        return await prepare(
            self.repo,
            self.changes if changes is None else changes,
            evidence_digest=EVIDENCE,
            triple=state,
            folder=self.folder,
            movers=movers,
        )

    def now(self) -> dict[str, tuple[int, bytes]]:
        """Return the listing of the checkout."""
        return listing(self.repo.root)


async def set_up(builder: RepoBuilder, change: Callable[[Path], None]) -> Setting:
    """Return the checkout of `builder` with what `change` does to a copy of its files."""
    root, copy = builder.root, builder.root.with_name(f"{builder.root.name}-copy")
    shutil.copytree(root, copy, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    base = _tree_of(builder, root)
    change(copy)
    result = _tree_of(builder, copy)
    after = listing(copy)
    shutil.rmtree(copy)
    repo = await builder.discovered()
    changes = await changes_between(repo, base, result)
    folder = repo.common_dir / "pinata" / "run-1" / "integration"
    return Setting(repo, changes, listing(root), after, folder)


def _tree_of(builder: RepoBuilder, files: Path) -> TreeId:
    """Return `files` as a tree in the repository, by an index of the test's own."""
    index = builder.root.with_name("tree-of.index")
    index.unlink(missing_ok=True)
    env = {
        "GIT_DIR": str(builder.root / ".git"),
        "GIT_WORK_TREE": str(files),
        "GIT_INDEX_FILE": str(index),
    }
    builder.git("read-tree", "HEAD", env=env)
    builder.git("-C", str(files), "add", "--all", env=env)
    return TreeId(os.fsdecode(builder.git("write-tree", env=env)).strip())


def write(path: Path, content: bytes, mode: int | None = None) -> None:
    """Write a file with its folders, and give it a mode."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    if mode is not None:
        path.chmod(mode)


def build_many(root: Path) -> RepoBuilder:
    """Make a checkout with one file for each way in which a path can change, some of them dirty."""
    files: dict[str, str | bytes] = {
        ".gitattributes": "*.crlf text eol=crlf\n*.loud filter=loud\n",
        ".gitignore": "*.ignored\n",
        "clean.txt": "one\n",
        "dirty.txt": "one\n",
        "lines.crlf": b"a\r\nb\r\n",
        "filtered.loud": "hello\n",
        "script.sh": "#!/bin/sh\n",
        "gone/deep/x": "x\n",
        "gone/deep/y": "y\n",
        "half/gone": "x\n",
        "half/stays": "x\n",
        "was-file": "file\n",
        "was-folder/a": "a\n",
        "was-folder/b/c": "c\n",
        "bystander.txt": "mine\n",
    }
    builder = RepoBuilder.create(root, files)
    builder.git("config", "filter.loud.clean", "tr a-z A-Z")
    builder.git("config", "filter.loud.smudge", "tr A-Z a-z")
    root.joinpath("link").symlink_to("clean.txt")
    builder.commit("links and filters")
    builder.write("dirty.txt", "one, and mine\r\n")
    builder.write("bystander.txt", "staged\n")
    builder.git("add", "bystander.txt")
    builder.write("bystander.txt", "staged, then edited\n")
    builder.write("untracked.txt", "mine too\n")
    builder.write("cache/x.ignored", "ignored\n")
    root.joinpath("clean.txt").chmod(0o640)
    root.joinpath("script.sh").chmod(0o640)
    root.joinpath("gone/deep").chmod(0o750)
    root.joinpath("empty").mkdir()
    return builder


def change_many(root: Path) -> None:
    """Change each path of `build_many` in its own way."""
    write(root / "clean.txt", b"two\n")
    write(root / "dirty.txt", b"two, and mine\r\n")
    write(root / "lines.crlf", b"a\r\nc\r\n")
    write(root / "filtered.loud", b"goodbye\n")
    root.joinpath("script.sh").chmod(0o750)
    shutil.rmtree(root / "gone")
    root.joinpath("half/gone").unlink()
    root.joinpath("was-file").unlink()
    write(root / "was-file/inner", b"inner\n")
    shutil.rmtree(root / "was-folder")
    write(root / "was-folder", b"now a file\n")
    write(root / "new/deep/y.bin", bytes(range(256)))
    write(root / "new/run.sh", b"#!/bin/sh\n", 0o755)
    root.joinpath("link").unlink()
    root.joinpath("link").symlink_to("script.sh")


def change_two(root: Path) -> None:
    """Change the contents of two files."""
    write(root / "edited.txt", b"after\n")
    write(root / "kept.txt", b"changed\n")


def change_three(root: Path) -> None:
    """Delete a file and its folder, replace one, add one in a folder of its own."""
    shutil.rmtree(root / "folder")
    write(root / "edited.txt", b"after\n")
    write(root / "new/added.txt", b"added\n")


def edit(setting: Setting) -> None:
    """Edit a file that the changes replace, as its user."""
    setting.repo.root.joinpath("edited.txt").write_bytes(b"mine\n")


async def stored_state(setting: Setting) -> JournalState:
    """Return how far the stored journal got."""
    journal = await load_journal(setting.folder)
    assert journal is not None
    return journal.state
