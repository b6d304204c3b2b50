import hashlib
import os
from pathlib import Path

import pytest

from engine.core.changes import ABSENT_MODE, Change, ChangeStatus
from engine.core.ids import BlobId, TaskId
from tests.support.repos import RUN, RepoBuilder
from tests.support.workshop import open_workshop
from tests.worktrees.test_contents import HOSTILE_NAMES, is_in_use, with_submodule
from worktrees.capture import Capture
from worktrees.hygiene import GitError, Repository
from worktrees.objects import commit_tree
from worktrees.refs import keep, task_ref

ZERO = BlobId("0" * 40)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def writer(repo: RepoBuilder, worktree: Repository) -> RepoBuilder:
    """Return the worktree as something that a writer can work in."""
    return RepoBuilder(worktree.root, repo.env)


def letters(captured: Capture) -> dict[bytes, str]:
    """Return the status letter of each change by path."""
    return {change.path: change.status.value for change in captured.changes}


async def test_every_kind_of_change_is_listed_exactly(repo: RepoBuilder, state: Path) -> None:
    repo.write("binary.bin", b"\0\1")
    repo.write("tool.sh", "#!/bin/sh\n")
    repo.write("linked.txt", "file\n")
    repo.commit("more")
    shop = await open_workshop(repo, state)
    worktree = await shop.worktree("fix")
    edit = writer(repo, worktree)
    edit.write("edited.txt", "after\n")
    edit.write("binary.bin", b"\0\2")
    edit.write("two\nlines \u00e9", "new\n")
    edit.write("secret.ignored", "never part of it\n")
    (worktree.root / "deleted.txt").unlink()
    (worktree.root / "tool.sh").chmod(0o755)
    (worktree.root / "linked.txt").unlink()
    (worktree.root / "linked.txt").symlink_to("kept.txt")
    captured = await shop.capture(worktree)

    def stored(content: bytes) -> BlobId:
        return BlobId(repo.store(content))

    modified, deleted = ChangeStatus.MODIFIED, ChangeStatus.DELETED
    script = stored(b"#!/bin/sh\n")
    assert captured.changes == (
        Change(b"binary.bin", modified, "100644", "100644", stored(b"\0\1"), stored(b"\0\2")),
        Change(b"deleted.txt", deleted, "100644", ABSENT_MODE, stored(b"going\n"), ZERO),
        Change(
            b"edited.txt", modified, "100644", "100644", stored(b"before\n"), stored(b"after\n")
        ),
        Change(
            b"linked.txt",
            ChangeStatus.TYPE_CHANGED,
            "100644",
            "120000",
            stored(b"file\n"),
            stored(b"kept.txt"),
        ),
        Change(b"tool.sh", modified, "100644", "100755", script, script),
        Change(
            "two\nlines \u00e9".encode(),
            ChangeStatus.ADDED,
            ABSENT_MODE,
            "100644",
            ZERO,
            stored(b"new\n"),
        ),
    )
    assert (captured.head, captured.nested, captured.notes) == (shop.snapshot.commit, (), ())
    assert await shop.capture(worktree) == captured
    assert not is_in_use(shop.scratch)


async def test_nothing_done_is_an_empty_capture(repo: RepoBuilder, state: Path) -> None:
    shop = await open_workshop(repo, state)
    worktree = await shop.worktree("fix")
    assert await shop.capture(worktree) == Capture(
        tree=shop.snapshot.tree,
        changes=(),
        head=shop.snapshot.commit,
        branch=None,
        nested=(),
        ignored=(),
        submodules={},
        notes=(),
    )


async def test_an_edit_of_equal_size_in_the_moment_of_the_checkout_is_captured(
    repo: RepoBuilder, state: Path
) -> None:
    names = [f"racy-{number}.txt" for number in range(40)]
    for name in names:
        repo.write(name, "aaaa")
    repo.commit("racy")
    shop = await open_workshop(repo, state)
    worktree = await shop.worktree("fix")
    for name in names:
        (worktree.root / name).write_text("bbbb")
    captured = await shop.capture(worktree)
    assert letters(captured) == {name.encode(): "M" for name in names}


async def test_a_clean_filter_applies_as_in_git_add(repo: RepoBuilder, state: Path) -> None:
    repo.git("config", "filter.upper.clean", "tr a-z A-Z")
    repo.write(".gitattributes", "*.up filter=upper\n*.crlf text eol=crlf\n")
    repo.commit("filter")
    shop = await open_workshop(repo, state)
    worktree = await shop.worktree("fix")
    edit = writer(repo, worktree)
    edit.write("x.up", "quiet\n")
    edit.write("y.crlf", "a\r\nb\r\n")
    captured = await shop.capture(worktree)
    edit.git("add", "--all")
    assert captured.tree == edit.ask("write-tree")
    assert repo.content(captured.tree, "x.up") == b"QUIET\n"
    assert repo.content(captured.tree, "y.crlf") == b"a\nb\n"


async def test_hostile_names_come_through(repo: RepoBuilder, state: Path) -> None:
    for name in HOSTILE_NAMES[::2]:
        repo.write(name, "old")
    shop = await open_workshop(repo, state)
    worktree = await shop.worktree("fix")
    edit = writer(repo, worktree)
    for name in HOSTILE_NAMES[1::2]:
        edit.write(name, "new")
    for name in HOSTILE_NAMES[::2]:
        (worktree.root / os.fsdecode(name)).unlink()
    captured = await shop.capture(worktree)
    assert letters(captured) == dict.fromkeys(HOSTILE_NAMES[1::2], "A") | dict.fromkeys(
        HOSTILE_NAMES[::2], "D"
    )


@pytest.mark.parametrize("replacement", ["nothing", "nonsense", "a repository"])
async def test_a_lost_git_file_hides_nothing(
    replacement: str, repo: RepoBuilder, state: Path
) -> None:
    shop = await open_workshop(repo, state)
    worktree = await shop.worktree("fix")
    edit = writer(repo, worktree)
    edit.write("edited.txt", "after\n")
    (worktree.root / ".git").unlink()
    if replacement == "nonsense":
        edit.write(".git", "gitdir: /nowhere\n")
    elif replacement == "a repository":
        edit.git("init", "--quiet")
        edit.git("add", "--all")
        edit.git("commit", "--quiet", "--message", "elsewhere")
    captured = await shop.capture(worktree)
    assert letters(captured) == {b"edited.txt": "M"}
    assert captured.head == shop.snapshot.commit


async def test_flags_in_the_index_of_the_writer_hide_nothing(
    repo: RepoBuilder, state: Path
) -> None:
    shop = await open_workshop(repo, state)
    worktree = await shop.worktree("fix")
    edit = writer(repo, worktree)
    edit.git("update-index", "--assume-unchanged", "edited.txt")
    edit.git("update-index", "--skip-worktree", "kept.txt")
    edit.write("edited.txt", "hidden\n")
    edit.write("kept.txt", "hidden\n")
    assert letters(await shop.capture(worktree)) == {b"edited.txt": "M", b"kept.txt": "M"}


def pretend_long_ago(seed: Path, path: bytes, at_s: float) -> None:
    """Let an index say that it was saved long after `path` was made, and that long ago.

    Source: gitformat-index(5).
    """
    data = bytearray(seed.read_bytes())
    entry = data.index(path + b"\0") - 62
    changed_s = int.from_bytes(data[entry : entry + 4], "big")
    data[entry : entry + 4] = (changed_s - 1000).to_bytes(4, "big")
    data[-20:] = hashlib.sha1(data[:-20], usedforsecurity=False).digest()
    seed.write_bytes(data)
    os.utime(seed, (at_s + 100, at_s + 100))


async def test_a_forged_time_hides_nothing(repo: RepoBuilder, state: Path) -> None:
    shop = await open_workshop(repo, state)
    worktree = await shop.worktree("fix")
    edit = writer(repo, worktree)
    repo.git("config", "core.trustctime", "false")
    repo.git("config", "core.checkStat", "minimal")
    place = worktree.root / "edited.txt"
    times = place.stat()
    edit.write("edited.txt", "BEFORE\n")
    os.utime(place, ns=(times.st_atime_ns, times.st_mtime_ns))
    pretend_long_ago(shop.seed("fix"), b"edited.txt", times.st_mtime)
    assert letters(await shop.capture(worktree)) == {b"edited.txt": "M"}


async def test_a_commit_of_the_writer_is_seen_and_its_content_too(
    repo: RepoBuilder, state: Path
) -> None:
    shop = await open_workshop(repo, state)
    worktree = await shop.worktree("fix")
    edit = writer(repo, worktree)
    edit.write("edited.txt", "after\n")
    head = edit.commit("mine")
    captured = await shop.capture(worktree)
    assert letters(captured) == {b"edited.txt": "M"}
    assert captured.head == head != shop.snapshot.commit


async def test_without_its_saved_index_a_capture_gives_the_same_answer(
    repo: RepoBuilder, state: Path
) -> None:
    shop = await open_workshop(repo, state)
    worktree = await shop.worktree("fix")
    writer(repo, worktree).write("edited.txt", "after\n")
    captured = await shop.capture(worktree)
    shop.seed("fix").unlink()
    assert await shop.capture(worktree) == captured


async def test_a_repository_made_inside_is_named(repo: RepoBuilder, state: Path) -> None:
    shop = await open_workshop(repo, state)
    worktree = await shop.worktree("fix")
    edit = writer(repo, worktree)
    edit.git("init", "--quiet", "nested")
    edit.write("nested/inner.txt", "hidden\n")
    captured = await shop.capture(worktree)
    assert captured.nested == (b"nested",)
    assert captured.changes == ()


async def test_files_in_the_empty_folder_of_a_submodule_are_named(
    repo: RepoBuilder, state: Path, tmp_path: Path
) -> None:
    with_submodule(repo, tmp_path)
    shop = await open_workshop(repo, state)
    worktree = await shop.worktree("fix")
    assert (await shop.capture(worktree)).nested == ()
    writer(repo, worktree).write("lib/hidden.txt", "hidden\n")
    captured = await shop.capture(worktree)
    assert captured.nested == (b"lib",)
    assert captured.notes == ("submodule lib was written into",)


async def test_the_lost_folder_of_a_submodule_is_no_deletion(
    repo: RepoBuilder, state: Path, tmp_path: Path
) -> None:
    with_submodule(repo, tmp_path)
    shop = await open_workshop(repo, state)
    worktree = await shop.worktree("fix")
    (worktree.root / "lib").rmdir()
    captured = await shop.capture(worktree)
    assert captured.changes == ()
    (worktree.root / "lib").write_text("a file in its place\n")
    captured = await shop.capture(worktree)
    assert captured.nested == (b"lib",)


async def test_another_commit_in_a_submodule_is_named(
    repo: RepoBuilder, state: Path, tmp_path: Path
) -> None:
    with_submodule(repo, tmp_path)
    shop = await open_workshop(repo, state)
    worktree = await shop.worktree("fix")
    edit = writer(repo, worktree)
    allow = ("-c", "protocol.file.allow=always")
    edit.git(*allow, "submodule", "--quiet", "update", "--init")
    edit.git("-C", "lib", "commit", "--quiet", "--allow-empty", "--message", "inside")
    captured = await shop.capture(worktree)
    assert letters(captured) == {b"lib": "M"}
    assert captured.nested == (b"lib",)
    assert captured.notes == ("submodule lib was changed",)


async def test_a_file_outside_the_sparse_cone_is_captured(repo: RepoBuilder, state: Path) -> None:
    repo.write("outside/far.txt", "far\n")
    repo.commit("more")
    repo.git("sparse-checkout", "set", "--cone", "folder")
    shop = await open_workshop(repo, state)
    worktree = await shop.worktree("fix")
    edit = writer(repo, worktree)
    assert letters(await shop.capture(worktree)) == {}
    edit.write("outside/far.txt", "changed\n")
    edit.write("outside/new.txt", "new\n")
    assert letters(await shop.capture(worktree)) == {
        b"outside/far.txt": "M",
        b"outside/new.txt": "A",
    }


async def test_ignore_rules_that_the_writer_changed_are_honoured_and_listed(
    repo: RepoBuilder, state: Path
) -> None:
    shop = await open_workshop(repo, state)
    worktree = await shop.worktree("fix")
    edit = writer(repo, worktree)
    edit.write(".gitignore", "*.ignored\n*.tmp\n")
    edit.write("x.tmp", "ignored now\n")
    assert letters(await shop.capture(worktree)) == {b".gitignore": "M"}


async def test_a_destroyed_registration_is_a_failure(repo: RepoBuilder, state: Path) -> None:
    shop = await open_workshop(repo, state)
    worktree = await shop.worktree("fix")
    (worktree.git_dir / "HEAD").unlink()
    with pytest.raises(GitError):
        await shop.capture(worktree)


async def test_a_kept_capture_survives_the_strictest_garbage_collection(
    repo: RepoBuilder, state: Path
) -> None:
    shop = await open_workshop(repo, state)
    worktree = await shop.worktree("fix")
    writer(repo, worktree).write("new.txt", "new\n")
    captured = await shop.capture(worktree)
    commit = await commit_tree(shop.checkout, [shop.snapshot.commit], captured.tree, "fix\n", 0)
    await keep(shop.checkout, task_ref(RUN, TaskId("fix"), 1), commit)
    repo.git("worktree", "remove", "--force", "--force", str(worktree.root))
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "--quiet", "--prune=now")
    assert repo.content(captured.tree, "new.txt") == b"new\n"
