"""The content tree is what `git add --all` and `git write-tree` would store, in every odd case."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.repos import RepoBuilder
from tests.worktrees.test_discovery import leave_conflict
from worktrees.contents import (
    BIG_FILE_BYTES,
    ContentTree,
    _big_file_notes,
    content_tree,
    copy_index,
    notes_about,
    private_index,
)
from worktrees.hygiene import GitError
from worktrees.refusal import UnmergedPathsError, shown_paths
from worktrees.status import decode_status

HOSTILE_NAMES = (
    b"two\nlines",
    b"latin-\xe9",
    b"-dash",
    b":(glob)*",
    b'"quoted"',
    b"back\\slash",
    b"tab\tbed",
    b"*[x]?",
    b"trailing ",
    "decomposed-e\u0301".encode(),
    "composed-\u00e9".encode(),
)


async def content_of(repo: RepoBuilder, scratch: Path) -> ContentTree:
    found = await repo.discovered()
    async with private_index(scratch, found.index) as index:
        return await content_tree(found, index)


def added_by_git(repo: RepoBuilder) -> str:
    """Return the tree that Git itself would store, in an index of its own."""
    index = repo.home / "index"
    copy_index(Path(repo.ask("rev-parse", "--absolute-git-dir")) / "index", index)
    env = {"GIT_INDEX_FILE": str(index)}
    repo.git("-c", "core.safecrlf=false", "add", "--all", env=env)
    return os.fsdecode(repo.git("write-tree", env=env)).strip()


def nothing(repo: RepoBuilder) -> None:
    pass


def everyday_edits(repo: RepoBuilder) -> None:
    repo.write("edited.txt", "after\n")
    (repo.root / "deleted.txt").unlink()
    repo.write("new/file.txt", "new\n")
    repo.write("not.ignored", "not stored\n")


def staged_edits(repo: RepoBuilder) -> None:
    repo.write("edited.txt", "staged\n")
    repo.write("staged-new.txt", "staged\n")
    repo.git("add", "edited.txt", "staged-new.txt")
    repo.git("rm", "--quiet", "--cached", "kept.txt")
    repo.write("edited.txt", "later\n")


def intended_file(repo: RepoBuilder) -> None:
    repo.write("intended.txt", "intended\n")
    repo.git("add", "--intent-to-add", "intended.txt")


def forced_ignored_file(repo: RepoBuilder) -> None:
    repo.write("forced.ignored", "tracked all the same\n")
    repo.git("add", "--force", "forced.ignored")


def hostile_names(repo: RepoBuilder) -> None:
    for name in HOSTILE_NAMES:
        repo.write(name, name)
    repo.commit("odd names")
    for name in HOSTILE_NAMES[::2]:
        repo.write(name, name + b" again")
    for name in HOSTILE_NAMES[1::2]:
        (repo.root / os.fsdecode(name)).unlink()


def exec_bit_and_types(repo: RepoBuilder) -> None:
    (repo.root / "kept.txt").chmod(0o755)
    (repo.root / "edited.txt").unlink()
    (repo.root / "edited.txt").symlink_to("nowhere")
    (repo.root / "link").symlink_to("folder")


def file_becomes_folder(repo: RepoBuilder) -> None:
    (repo.root / "edited.txt").unlink()
    repo.write("edited.txt/inner.txt", "deeper\n")


def folder_becomes_file(repo: RepoBuilder) -> None:
    (repo.root / "folder/inner.txt").unlink()
    (repo.root / "folder").rmdir()
    repo.write("folder", "flat\n")


def folder_becomes_link(repo: RepoBuilder) -> None:
    (repo.root / "folder").rename(repo.root / "moved")
    (repo.root / "folder").symlink_to("moved")


def line_endings(repo: RepoBuilder) -> None:
    repo.write(".gitattributes", "*.txt text=auto\n*.u16 text working-tree-encoding=UTF-16LE\n")
    repo.write("crlf.txt", "a\r\nb\r\n")
    repo.write("wide.u16", "wide\n".encode("utf-16-le"))
    repo.git("config", "core.safecrlf", "true")


def clean_filter(repo: RepoBuilder) -> None:
    repo.git("config", "filter.upper.clean", "tr a-z A-Z")
    repo.write(".gitattributes", "*.up filter=upper\n")
    repo.write("x.up", "quiet\n")


def split_index(repo: RepoBuilder) -> None:
    repo.git("update-index", "--split-index")
    everyday_edits(repo)


def index_version_four(repo: RepoBuilder) -> None:
    repo.git("update-index", "--index-version", "4")
    everyday_edits(repo)


def nested_ignore_file(repo: RepoBuilder) -> None:
    repo.write("sub/.gitignore", "*.tmp\n!keep.tmp\n")
    repo.write("sub/a.tmp", "ignored\n")
    repo.write("sub/keep.tmp", "kept\n")
    repo.write(".git/info/exclude", "excluded.txt\n")
    repo.write("excluded.txt", "ignored\n")


@pytest.mark.parametrize(
    "change",
    [
        nothing,
        everyday_edits,
        staged_edits,
        intended_file,
        forced_ignored_file,
        hostile_names,
        exec_bit_and_types,
        file_becomes_folder,
        folder_becomes_file,
        folder_becomes_link,
        line_endings,
        clean_filter,
        split_index,
        index_version_four,
        nested_ignore_file,
    ],
    ids=lambda change: change.__name__,
)
async def test_the_content_tree_is_what_git_would_store(
    change: Callable[[RepoBuilder], None], repo: RepoBuilder, scratch: Path
) -> None:
    change(repo)
    before = repo.facts()
    content = await content_of(repo, scratch)
    assert repo.facts() == before
    expected = added_by_git(repo)
    assert repo.listing(content.tree) == repo.listing(expected)
    assert content.tree == expected
    assert (content.nested, content.notes) == ((), ())
    assert not is_in_use(scratch)


def is_in_use(scratch: Path) -> bool:
    return any(scratch.iterdir())


async def test_files_outside_a_sparse_checkout_stay_as_the_last_commit_has_them(
    repo: RepoBuilder, scratch: Path
) -> None:
    repo.write("outside/far.txt", "far\n")
    repo.commit("more")
    repo.git("sparse-checkout", "set", "--cone", "folder")
    repo.write("folder/inner.txt", "changed\n")
    repo.write("outside/untracked.txt", "new\n")
    assert not (repo.root / "outside/far.txt").exists()
    content = await content_of(repo, scratch)
    assert repo.content(content.tree, "outside/far.txt") == b"far\n"
    assert repo.content(content.tree, "folder/inner.txt") == b"changed\n"
    assert repo.content(content.tree, "outside/untracked.txt") == b"new\n"
    assert content.uncommitted == (b"folder/inner.txt", b"outside/untracked.txt")


async def test_a_sparse_index_is_read(repo: RepoBuilder, scratch: Path) -> None:
    repo.write("outside/far.txt", "far\n")
    repo.commit("more")
    repo.git("sparse-checkout", "set", "--cone", "--sparse-index", "folder")
    repo.write("folder/inner.txt", "changed\n")
    content = await content_of(repo, scratch)
    assert repo.content(content.tree, "outside/far.txt") == b"far\n"
    assert repo.content(content.tree, "folder/inner.txt") == b"changed\n"


async def test_a_nested_repository_is_left_out_and_named(repo: RepoBuilder, scratch: Path) -> None:
    repo.git("init", "--quiet", "nested")
    repo.write("nested/inner.txt", "hidden\n")
    repo.write("beside.txt", "seen\n")
    content = await content_of(repo, scratch)
    assert b"beside.txt" in repo.listing(content.tree)
    assert not any(path.startswith(b"nested") for path in repo.listing(content.tree))
    assert content.nested == (b"nested",)
    assert content.notes == ("nested/ is a repository of its own and is left out",)
    assert content.uncommitted == (b"beside.txt",)


def with_submodule(repo: RepoBuilder, tmp_path: Path) -> None:
    """Add a committed submodule `lib`."""
    library = RepoBuilder.create(tmp_path / "library")
    allow = ("-c", "protocol.file.allow=always")
    repo.git(*allow, "submodule", "--quiet", "add", str(library.root), "lib")
    repo.commit("submodule")


async def test_a_new_commit_in_a_submodule_is_taken(
    repo: RepoBuilder, scratch: Path, tmp_path: Path
) -> None:
    with_submodule(repo, tmp_path)
    repo.git("config", "submodule.lib.ignore", "all")
    repo.git("-C", "lib", "commit", "--quiet", "--allow-empty", "--message", "inside")
    content = await content_of(repo, scratch)
    inside = repo.ask("-C", "lib", "rev-parse", "HEAD")
    assert repo.listing(content.tree)[b"lib"] == ("160000", inside)
    assert content.notes == ()


async def test_changes_inside_a_submodule_are_left_out_and_named(
    repo: RepoBuilder, scratch: Path, tmp_path: Path
) -> None:
    with_submodule(repo, tmp_path)
    repo.write("lib/kept.txt", "dirty\n")
    content = await content_of(repo, scratch)
    assert content.tree == repo.ask("rev-parse", "HEAD^{tree}")
    assert content.nested == (b"lib",)
    assert content.notes == ("changes inside submodule lib are left out",)


async def test_an_absent_submodule_folder_deletes_nothing(
    repo: RepoBuilder, scratch: Path, tmp_path: Path
) -> None:
    with_submodule(repo, tmp_path)
    (repo.root / "lib").rename(tmp_path / "away")
    content = await content_of(repo, scratch)
    assert content.tree == repo.ask("rev-parse", "HEAD^{tree}")
    assert content.notes == (
        "the folder of submodule lib is absent; the submodule is kept as it was",
    )


async def test_unmerged_paths_are_refused_by_name_or_taken_as_they_lie(
    repo: RepoBuilder, scratch: Path
) -> None:
    leave_conflict(repo)
    found = await repo.discovered()
    async with private_index(scratch, found.index) as index:
        with pytest.raises(UnmergedPathsError) as refused:
            await content_tree(found, index)
        assert refused.value.paths == (b"edited.txt",)
        repo.write("edited.txt", "<<<<<<< half done\n")
        content = await content_tree(found, index, refuse_unmerged=False)
    assert repo.content(content.tree, "edited.txt") == b"<<<<<<< half done\n"
    async with private_index(scratch, found.index) as index:
        (repo.root / "edited.txt").unlink()
        content = await content_tree(found, index, refuse_unmerged=False)
    assert b"edited.txt" not in repo.listing(content.tree)


async def test_edits_of_equal_size_in_the_same_moment_are_seen(
    repo: RepoBuilder, scratch: Path
) -> None:
    moment = (1_600_000_000_000_000_000, 1_600_000_000_000_000_000)
    # Only the time of the change would tell the edits apart, and a copy may not rely on it.
    repo.git("config", "core.trustctime", "false")
    place = repo.write("racy.txt", "aaaa")
    os.utime(place, ns=moment)
    repo.git("add", "racy.txt")
    os.utime(repo.root / ".git/index", ns=moment)
    repo.write("racy.txt", "bbbb")
    os.utime(place, ns=moment)
    content = await content_of(repo, scratch)
    assert repo.content(content.tree, "racy.txt") == b"bbbb"


async def test_before_the_first_commit_there_is_no_head(repo: RepoBuilder, scratch: Path) -> None:
    repo.git("checkout", "--quiet", "--orphan", "empty")
    repo.git("rm", "--quiet", "-r", "--cached", ".")
    (repo.root / ".git/index").unlink()
    content = await content_of(repo, scratch)
    assert content.head is None
    assert b"kept.txt" in repo.listing(content.tree)


def test_a_copied_index_keeps_its_time(tmp_path: Path) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_bytes(b"index")
    os.utime(source, ns=(1_000_000_001, 2_000_000_003))
    assert copy_index(source, target)
    assert target.stat().st_mtime_ns == 2_000_000_003
    assert not copy_index(tmp_path / "missing", target)


def test_other_headers_of_a_status_are_passed_over() -> None:
    reading = decode_status(b"# branch.oid (initial)\0# branch.head main\0# stash 2\0! x\0")
    assert (reading.head, reading.entries) == (None, ())


def test_many_paths_are_shown_by_their_first_ones() -> None:
    paths = [b"p%d" % number for number in range(12)]
    assert shown_paths(paths) == "p0, p1, p2, p3, p4, p5, p6, p7, p8, p9 and 2 more"
    assert shown_paths([b"a\nb"]) == '"a\\nb"'


async def test_a_very_big_file_is_noted_and_one_that_vanished_is_not(
    repo: RepoBuilder, scratch: Path
) -> None:
    with repo.place("big.bin").open("wb") as file:
        file.truncate(BIG_FILE_BYTES + (1 << 20))
    repo.git("init", "--quiet", "nested")
    found = await repo.discovered()
    assert await notes_about(found, scratch) == (
        "nested/ is a repository of its own and is left out",
        "big.bin is 101 MiB and is stored in the repository's objects",
    )
    (repo.root / "big.bin").unlink()
    assert list(_big_file_notes(found, [b"big.bin", b"kept.txt/inner", b"kept.txt"])) == []


_COLLECT = """#!/bin/sh
cat
[ -e {done} ] && exit
unset GIT_DIR GIT_INDEX_FILE GIT_WORK_TREE GIT_COMMON_DIR GIT_OBJECT_DIRECTORY
touch {done}
exec git -C {root} gc --quiet --prune=now >&2
"""


def collect_in_the_middle(repo: RepoBuilder) -> None:
    """Let Git collect garbage once, after a.txt was stored and before z.late is."""
    script = repo.home / "collect"
    text = _COLLECT.format(done=repo.home / "done", root=repo.root)
    script.write_text(text)
    script.chmod(0o755)
    repo.git("config", "filter.collecting.clean", str(script))
    repo.write(".git/info/attributes", "*.late filter=collecting\n")
    repo.write("a.txt", "stored before the collection\n")
    repo.write("z.late", "stored after it\n")


async def test_a_collection_in_the_middle_costs_another_try(
    repo: RepoBuilder, scratch: Path
) -> None:
    collect_in_the_middle(repo)
    content = await content_of(repo, scratch)
    assert (repo.home / "done").exists()
    assert repo.content(content.tree, "a.txt") == b"stored before the collection\n"
    assert repo.content(content.tree, "z.late") == b"stored after it\n"


async def test_an_object_that_is_missing_for_another_reason_is_told(
    repo: RepoBuilder, scratch: Path
) -> None:
    repo.write("staged.txt", "staged\n")
    repo.git("add", "staged.txt")
    blob = repo.ask("rev-parse", ":staged.txt")
    (repo.root / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    (repo.root / "deleted.txt").unlink()
    with pytest.raises(GitError, match=r"invalid object 100644 .* for 'staged\.txt'"):
        await content_of(repo, scratch)
