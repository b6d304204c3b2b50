import hashlib
import os
from pathlib import Path

import pytest

from engine.core.ids import TreeId
from tests.support.repos import RepoBuilder
from tests.worktrees.test_contents import HOSTILE_NAMES, content_of
from worktrees.hygiene import GitError
from worktrees.patch import changes_between, cut_patch, write_patch

HOSTILE_SETTINGS = {
    "diff.noprefix": "true",
    "diff.mnemonicPrefix": "true",
    "diff.external": "false",
    "diff.renames": "copies",
    "diff.relative": "true",
    "diff.orderFile": "order",
    "diff.context": "0",
    "diff.interHunkContext": "5",
    "diff.algorithm": "patience",
    "diff.suppressBlankEmpty": "true",
    "diff.ignoreSubmodules": "all",
    "diff.submodule": "log",
    "diff.upper.textconv": "tr a-z A-Z <",
    "color.ui": "always",
    "core.abbrev": "5",
}


def change_everything(repo: RepoBuilder) -> None:
    repo.write("edited.txt", "after, without an end")
    (repo.root / "deleted.txt").unlink()
    repo.write("binary.bin", bytes(range(256)))
    repo.write("crlf.txt", "a\r\n\r\nb\r\n")
    repo.write("latin.txt", b"caf\xe9\n")
    (repo.root / "kept.txt").chmod(0o755)
    (repo.root / "folder/inner.txt").rename(repo.root / "renamed.txt")
    (repo.root / "folder").rmdir()
    (repo.root / "folder").symlink_to("renamed.txt")
    for name in HOSTILE_NAMES:
        repo.write(name, "x")


async def trees_of(repo: RepoBuilder, scratch: Path) -> tuple[TreeId, TreeId]:
    repo.write(".gitattributes", "*.txt diff=upper\n")
    repo.write("order", "renamed.txt\n")
    repo.commit("attributes")
    before = TreeId(repo.ask("rev-parse", "HEAD^{tree}"))
    change_everything(repo)
    return before, (await content_of(repo, scratch)).tree


async def test_a_patch_applies_exactly_whatever_is_configured(
    repo: RepoBuilder, scratch: Path, tmp_path: Path
) -> None:
    before, after = await trees_of(repo, scratch)
    found = await repo.discovered()
    plain = await write_patch(found, before, after, tmp_path / "plain.patch")
    for name, value in HOSTILE_SETTINGS.items():
        repo.git("config", name, value)
    patch = await write_patch(found, before, after, tmp_path / "fix.patch")
    data = patch.path.read_bytes()
    assert data == plain.path.read_bytes()
    assert (patch.bytes, patch.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert patch.path.stat().st_mode & 0o777 == 0o600
    env = {"GIT_INDEX_FILE": str(repo.home / "index")}
    repo.git("read-tree", before, env=env)
    repo.git("apply", "--cached", str(patch.path), env=env)
    assert os.fsdecode(repo.git("write-tree", env=env)).strip() == after


async def test_the_list_of_changes_is_sorted_and_knows_no_renames(
    repo: RepoBuilder, scratch: Path
) -> None:
    before, after = await trees_of(repo, scratch)
    found = await repo.discovered()
    plain = await changes_between(found, before, after)
    for name, value in HOSTILE_SETTINGS.items():
        repo.git("config", name, value)
    changes = await changes_between(found, before, after)
    assert changes == plain
    assert [change.path for change in changes] == sorted(change.path for change in changes)
    by_path = {change.path: change.status.value for change in changes}
    assert by_path == dict.fromkeys(HOSTILE_NAMES, "A") | {
        b"edited.txt": "M",
        b"deleted.txt": "D",
        b"binary.bin": "A",
        b"crlf.txt": "A",
        b"latin.txt": "A",
        b"kept.txt": "M",
        b"folder": "A",
        b"folder/inner.txt": "D",
        b"renamed.txt": "A",
    }


async def test_equal_trees_differ_in_nothing(repo: RepoBuilder, tmp_path: Path) -> None:
    found, tree = await repo.discovered(), TreeId(repo.ask("rev-parse", "HEAD^{tree}"))
    assert await changes_between(found, tree, tree) == ()
    patch = await write_patch(found, tree, tree, tmp_path / "empty.patch")
    assert (patch.bytes, patch.path.read_bytes()) == (0, b"")


async def test_a_patch_that_fails_leaves_nothing(repo: RepoBuilder, tmp_path: Path) -> None:
    target = tmp_path / "patches" / "fix.patch"
    target.parent.mkdir()
    with pytest.raises(GitError):
        await write_patch(await repo.discovered(), TreeId("1" * 40), TreeId("2" * 40), target)
    assert not has_entries(target.parent)


def has_entries(folder: Path) -> bool:
    return any(folder.iterdir())


async def test_a_wide_difference_is_listed_too(repo: RepoBuilder) -> None:
    before = TreeId(repo.ask("rev-parse", "HEAD^{tree}"))
    names = [f"folder-{number:03}/file.txt" for number in range(250)]
    for name in names:
        repo.write(name, "x")
    repo.commit("wide")
    after = TreeId(repo.ask("rev-parse", "HEAD^{tree}"))
    changes = await changes_between(await repo.discovered(), before, after)
    assert [change.path.decode() for change in changes] == names


@pytest.mark.parametrize(
    ("limit", "kept"),
    [(20, b"diff --git a/e"), (10_000, b"")],
    ids=["within a line", "between lines"],
)
async def test_a_cut_patch_ends_with_a_note_that_names_the_whole(
    repo: RepoBuilder, scratch: Path, limit: int, kept: bytes
) -> None:
    before = TreeId(repo.ask("rev-parse", "HEAD^{tree}"))
    repo.write("edited.txt", "line\n" * 5_000)
    repo.commit("after")
    after = TreeId(repo.ask("rev-parse", "HEAD^{tree}"))
    whole = await write_patch(await repo.discovered(), before, after, scratch / "whole.patch")
    target = scratch / "cut.diff"
    await cut_patch(whole, target, limit)
    start, _, note = target.read_bytes().removesuffix(b"\n").rpartition(b"\n")
    assert whole.path.read_bytes().startswith(start)
    assert limit - 10 < len(start) + 1 <= limit + 1
    assert start.startswith(kept)
    assert f"of {whole.bytes:,} bytes; all of it: {whole.path}" in note.decode()
    assert target.stat().st_mode & 0o777 == 0o600
