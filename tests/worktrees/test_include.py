"""Which ignored files are copied into a worktree, and that none of them is ever a change."""

import os
import stat
from pathlib import Path

import pytest

from engine.core.errors import ExternalError
from tests.support.privileges import unprivileged
from tests.support.repos import RepoBuilder
from tests.support.workshop import Workshop, open_workshop
from tests.worktrees.test_contents import HOSTILE_NAMES
from worktrees.hygiene import Repository
from worktrees.include import (
    COPY_LIMIT_BYTES,
    INCLUDE_FILE,
    MOST_COPIES,
    Included,
    IncludeRulesError,
    TooManyIncludedError,
    _copy,
    copy_included,
    read_included,
)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


async def include(shop: Workshop, worktree: Repository) -> Included:
    return await copy_included(shop.checkout, worktree, shop.seed(worktree.root.name))


async def included(repo: RepoBuilder, state: Path, rules: str | bytes) -> Included:
    """Return what `rules` bring into a new worktree."""
    repo.write(INCLUDE_FILE, rules)
    shop = await open_workshop(repo, state)
    return await include(shop, await shop.worktree("fix"))


async def test_without_rules_nothing_is_copied(repo: RepoBuilder, state: Path) -> None:
    repo.write("local.ignored", "mine\n")
    shop = await open_workshop(repo, state)
    worktree = await shop.worktree("fix")
    assert await include(shop, worktree) == Included()
    assert not (worktree.root / "local.ignored").exists()


async def test_only_what_is_regular_small_and_ignored_is_copied(
    repo: RepoBuilder, state: Path
) -> None:
    repo.write("deep/er/local.ignored", "mine\n").chmod(0o751)
    (repo.root / "link.ignored").symlink_to("kept.txt")
    os.mkfifo(repo.root / "pipe.ignored")
    with repo.place("large.ignored").open("wb") as file:
        file.truncate(20 << 20)
    with repo.place("full.ignored").open("wb") as file:
        file.truncate(COPY_LIMIT_BYTES)
    repo.write("unignored.txt", "not ignored\n")
    repo.write("unnamed/other.ignored", "not named\n")
    repo.write(INCLUDE_FILE, "/*.ignored\ndeep/\nunignored.txt\nkept.txt\n")
    shop = await open_workshop(repo, state)
    worktree = await shop.worktree("fix")
    (worktree.root / "unignored.txt").unlink()
    found = await include(shop, worktree)
    assert found == Included(
        (b"deep/er/local.ignored", b"full.ignored"),
        (
            "large.ignored is larger than 16 MiB and was not copied into the worktree",
            "link.ignored is not a regular file and was not copied into the worktree",
        ),
    )
    copy = worktree.root / "deep/er/local.ignored"
    assert copy.read_text() == "mine\n"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o751
    assert (worktree.root / "full.ignored").stat().st_size == COPY_LIMIT_BYTES
    assert not (worktree.root / "unignored.txt").exists()


async def test_what_is_ignored_is_decided_by_the_worktree(repo: RepoBuilder, state: Path) -> None:
    head = repo.commit("ignores *.ignored")
    repo.write("one.local", "1\n")
    repo.write("two.ignored", "2\n")
    repo.write(".gitignore", "*.local\n")
    repo.write(INCLUDE_FILE, "*.local\n*.ignored\n")
    shop = await open_workshop(repo, state)
    worktree = await shop.worktree("fix", head)
    assert await include(shop, worktree) == Included((b"two.ignored",))


async def test_nothing_is_replaced_and_no_link_is_followed_in_the_worktree(
    repo: RepoBuilder, state: Path, tmp_path: Path
) -> None:
    for path in ("there.ignored", "linked/in.ignored", "file/in.ignored", "folder/in.ignored"):
        repo.write(path, "from the checkout\n")
    repo.write(INCLUDE_FILE, "*.ignored\n")
    shop = await open_workshop(repo, state)
    worktree = await shop.worktree("fix")
    outside = tmp_path / "outside"
    outside.mkdir()
    (worktree.root / "there.ignored").write_text("was here\n")
    (worktree.root / "linked").symlink_to(outside)
    (worktree.root / "file").write_text("a file\n")
    assert (await include(shop, worktree)).copied == (b"folder/in.ignored",)
    assert (worktree.root / "there.ignored").read_text() == "was here\n"
    assert list(outside.iterdir()) == []


async def test_what_is_reached_by_a_link_in_the_checkout_is_not_copied(
    repo: RepoBuilder, state: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "in.ignored").write_text("not of the checkout\n")
    (repo.root / "linked.ignored").symlink_to(outside)
    nested = RepoBuilder.create(repo.root / "nested.ignored", {"in.ignored": "x\n"})
    found = await included(repo, state, "*.ignored\nin.ignored\n")
    assert found.copied == ()
    assert nested.root.is_dir()


async def test_names_of_any_bytes_are_copied(repo: RepoBuilder, state: Path) -> None:
    repo.write(".gitignore", "/odd/\n")
    for name in HOSTILE_NAMES:
        repo.write(b"odd/" + name, b"odd " + name)
    repo.write(INCLUDE_FILE, b"\xef\xbb\xbf# all\r\nodd/\xe9\xe9\r\nodd/*\r\n!odd/-dash\r\n")
    shop = await open_workshop(repo, state)
    worktree = await shop.worktree("fix")
    found = await include(shop, worktree)
    expected = sorted(b"odd/" + name for name in HOSTILE_NAMES if name != b"-dash")
    assert list(found.copied) == expected
    for path in expected:
        assert (worktree.root / os.fsdecode(path)).read_bytes() == b"odd " + path[4:]


async def test_more_than_a_thousand_files_are_refused_before_the_first_copy(
    repo: RepoBuilder, state: Path
) -> None:
    for number in range(MOST_COPIES):
        repo.write(f"many/{number}.ignored", "x")
    repo.write(INCLUDE_FILE, "many/\n")
    shop = await open_workshop(repo, state)
    full = await shop.worktree("full")
    assert len((await include(shop, full)).copied) == MOST_COPIES
    repo.write("many/one-more.ignored", "x")
    over = await shop.worktree("over")
    with pytest.raises(TooManyIncludedError, match="matches 1,001 files, and 1,000 is the most"):
        await include(shop, over)
    assert not (over.root / "many").exists()


async def test_many_refused_files_are_counted_after_the_first(
    repo: RepoBuilder, state: Path
) -> None:
    for number in range(12):
        repo.place(f"{number:02}.ignored").symlink_to("kept.txt")
    notes = (await included(repo, state, "*.ignored\n")).notes
    assert len(notes) == 11
    assert notes[-1] == "2 more files that .worktreeinclude names were not copied"


async def test_rules_that_are_no_file_of_their_own_are_not_used(
    repo: RepoBuilder, state: Path
) -> None:
    repo.write("local.ignored", "mine\n")
    repo.write("rules.ignored", "*.ignored\n")
    (repo.root / INCLUDE_FILE).symlink_to("rules.ignored")
    shop = await open_workshop(repo, state)
    (note,) = (await include(shop, await shop.worktree("fix"))).notes
    assert "nothing was copied" in note
    assert f"{INCLUDE_FILE} is not a regular file" in note


async def test_rules_that_mean_nothing_are_refused(repo: RepoBuilder, state: Path) -> None:
    with pytest.raises(IncludeRulesError, match=r"\.worktreeinclude cannot be understood"):
        await included(repo, state, "!\n")


async def test_no_copy_is_captured_even_if_it_is_not_ignored_any_more(
    repo: RepoBuilder, state: Path
) -> None:
    for path in ("local.ignored", "deep/local.ignored", "folder.ignored"):
        repo.write(path, "mine\n")
    repo.write(INCLUDE_FILE, "*.ignored\n")
    shop = await open_workshop(repo, state)
    worktree = await shop.worktree("fix")
    await include(shop, worktree)
    assert (await shop.capture(worktree)).changes == ()
    (worktree.root / ".gitignore").write_text("")
    (worktree.root / "local.ignored").write_text("edited\n")
    (worktree.root / "folder.ignored").unlink()
    (worktree.root / "folder.ignored").mkdir()
    (worktree.root / "folder.ignored" / "new").write_text("made\n")
    captured = await shop.capture(worktree)
    assert [c.path for c in captured.changes] == [b".gitignore", b"folder.ignored/new"]
    assert captured.notes == (
        "deep/local.ignored was copied from the checkout, not made",
        "local.ignored was copied from the checkout, not made",
    )
    assert set(repo.listing(captured.tree)) - set(repo.listing(shop.snapshot.tree)) == {
        b"folder.ignored/new"
    }


async def test_a_second_call_copies_what_is_new_and_forgets_nothing(
    repo: RepoBuilder, state: Path
) -> None:
    repo.write("one.ignored", "1\n")
    repo.write(INCLUDE_FILE, "*.ignored\n")
    shop = await open_workshop(repo, state)
    worktree = await shop.worktree("fix")
    await include(shop, worktree)
    repo.write("one.ignored", "changed\n")
    repo.write("two.ignored", "2\n")
    assert await include(shop, worktree) == Included((b"two.ignored",))
    assert (worktree.root / "one.ignored").read_text() == "1\n"
    assert read_included(shop.seed("fix")) == (b"one.ignored", b"two.ignored")


def test_a_file_that_is_not_what_it_was_is_not_copied(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    (source / "folder").mkdir()
    (source / "link").symlink_to("file")
    (source / "file").write_text("x")
    (target / "there").write_text("was here")
    (source / "there").write_text("x")
    for name in (b"absent", b"folder", b"link", b"there", b"file/below"):
        assert not _copy(source, target, name), name
    assert [path.name for path in target.iterdir()] == ["there"]
    assert (target / "there").read_text() == "was here"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    secret = tmp_path / "source" / "secret"
    secret.write_text("x")
    secret.chmod(0)
    with pytest.raises(ExternalError, match="secret cannot be copied into the worktree: Perm"):
        unprivileged(lambda: _copy(tmp_path / "source", tmp_path, b"secret"))
