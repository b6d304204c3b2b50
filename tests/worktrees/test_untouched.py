import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from engine.core.errors import ExternalError
from engine.core.ids import TreeId
from tests.support.repos import RepoBuilder
from tests.support.workshop import Workshop, open_workshop
from worktrees.capture import capture
from worktrees.include import copy_included
from worktrees.registration import find_registration
from worktrees.root import Root, keep_root
from worktrees.untouched import Left, find_touch


def now_ns(folder: Path) -> int:
    """Return the time as the file system tells it."""
    marker = folder / "marker"
    marker.unlink(missing_ok=True)
    marker.write_text("")
    return marker.stat().st_ctime_ns


class Place:
    """A worktree that a writer worked in and that was captured."""

    def __init__(self, shop: Workshop, left: Left, since_ns: int) -> None:
        self.shop = shop
        self.left = left
        self.since_ns = since_ns

    @classmethod
    async def create(
        cls, repo: RepoBuilder, tmp_path: Path, work: Callable[[Path], object] | None = None
    ) -> "Place":
        shop = await open_workshop(repo, tmp_path / "state")
        worktree = await shop.worktree("fix")
        seed = shop.seed("fix")
        root = Root.of(worktree.root)
        await trio.to_thread.run_sync(keep_root, seed, root)
        await copy_included(shop.checkout, worktree, seed)
        (worktree.root / "edited.txt").write_text("after\n")
        if work is not None:
            work(worktree.root)
        found = await capture(worktree, shop.snapshot.tree, seed, shop.scratch)
        since_ns = now_ns(tmp_path)
        left = Left(worktree.root, seed, "run-1/fix", found.tree, since_ns)
        return cls(shop, left, since_ns)

    @property
    def root(self) -> Path:
        return self.left.path

    def wait(self) -> None:
        """Return once the file system, which tells time coarsely, says that it is later."""
        while now_ns(self.shop.state) <= self.since_ns:
            pass

    def write(self, path: Path, content: str = "mine\n") -> None:
        """Write a file later than work there ended."""
        self.wait()
        path.write_text(content)

    async def touch(self, **changes: object) -> str | None:
        left = replace(self.left, **changes)  # type: ignore[arg-type]  # names and types of Left
        return await find_touch(self.shop.checkout, left, self.shop.scratch)


def everything(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Return what tells whether anything was written; Git renews the times of its objects."""
    found = {}
    for parent, folders, names in os.walk(folder):
        for name in (*folders, *names):
            facts = Path(parent, name).lstat()
            when = 0 if "objects" in parent else facts.st_ctime_ns
            found[str(Path(parent, name))] = facts.st_ino, facts.st_size, when
    return found


async def test_worktree_that_is_as_it_was_captured_holds_nothing_of_anybody(
    repo: RepoBuilder, tmp_path: Path
) -> None:
    def build(root: Path) -> None:
        (root / "out").mkdir()
        (root / "out" / "made.ignored").write_text("made\n")
        (root / "new.txt").write_text("new\n")

    place = await Place.create(repo, tmp_path, build)
    before = everything(repo.root), everything(place.root)
    assert await place.touch() is None
    assert (everything(repo.root), everything(place.root)) == before
    place.left.seed_index.unlink()
    assert await place.touch() is None


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("mine.txt", "mine.txt differs from what was captured"),
        ("edited.txt", "edited.txt differs from what was captured"),
        ("notes.ignored", "notes.ignored came or changed since work there ended"),
    ],
)
async def test_file_of_a_person_is_named(
    name: str, says: str, repo: RepoBuilder, tmp_path: Path
) -> None:
    place = await Place.create(repo, tmp_path)
    place.write(place.root / name)
    assert await place.touch() == says


async def test_file_in_an_ignored_folder_is_named_with_it(
    repo: RepoBuilder, tmp_path: Path
) -> None:
    repo.write(".gitignore", "out/\n")
    repo.commit("ignores")

    def build(root: Path) -> None:
        (root / "out" / "deep").mkdir(parents=True)
        (root / "out" / "made").write_text("made\n")

    place = await Place.create(repo, tmp_path, build)
    assert await place.touch() is None
    place.write(place.root / "out" / "deep" / "mine")
    said = await place.touch()
    assert said == "out/deep and out/deep/mine came or changed since work there ended"


async def test_file_that_is_linked_into_another_place_counts_as_unchanged(
    repo: RepoBuilder, tmp_path: Path
) -> None:
    place = await Place.create(
        repo, tmp_path, lambda root: (root / "made.ignored").write_text("made\n")
    )
    made = place.root / "made.ignored"
    for number in range(100_000):
        os.link(made, tmp_path / f"elsewhere{number}")
        if made.stat().st_ctime_ns > place.since_ns:
            break
    assert made.stat().st_ctime_ns > place.since_ns
    assert await place.touch() is None


async def test_file_whose_names_are_all_there_is_not_taken_for_one_of_elsewhere(
    repo: RepoBuilder, tmp_path: Path
) -> None:
    place = await Place.create(repo, tmp_path)
    mine = place.root / "mine.ignored"
    place.write(mine)
    os.utime(mine, (1, 1))
    os.link(mine, place.root / "again.ignored")
    says = "again.ignored and mine.ignored came or changed since work there ended"
    assert await place.touch() == says


async def test_copy_of_an_included_file_is_ours_until_somebody_edits_it(
    repo: RepoBuilder, tmp_path: Path
) -> None:
    repo.write(".worktreeinclude", "*.ignored\n")
    repo.write("set.ignored", "set\n")
    place = await Place.create(
        repo, tmp_path, lambda root: (root / ".gitignore").write_text("nothing\n")
    )
    assert (place.root / "set.ignored").read_text() == "set\n"
    assert await place.touch() is None
    place.write(place.root / "set.ignored")
    assert await place.touch() == "set.ignored came or changed since work there ended"


async def test_repository_that_somebody_put_there_is_named(
    repo: RepoBuilder, tmp_path: Path
) -> None:
    place = await Place.create(repo, tmp_path)
    place.write(place.root / "folder" / ".git")
    says = "folder and folder/.git came or changed since work there ended"
    assert await place.touch() == says


async def test_commit_in_the_worktree_is_found_by_its_head(
    repo: RepoBuilder, tmp_path: Path
) -> None:
    place = await Place.create(repo, tmp_path)
    found = find_registration(place.shop.checkout, place.root)
    assert found is not None
    head = found.git_dir / "HEAD"
    place.write(head, head.read_text())
    assert await place.touch() == "its HEAD was moved since work there ended"
    head.unlink()
    assert await place.touch() == "its HEAD was moved since work there ended"


async def test_what_was_never_captured_must_be_older_than_the_end_of_the_run(
    repo: RepoBuilder, tmp_path: Path
) -> None:
    place = await Place.create(repo, tmp_path)
    assert await place.touch(tree=None) is None
    place.write(place.root / "mine.txt")
    assert await place.touch(tree=None) == ". and mine.txt came or changed since work there ended"


async def test_what_is_not_the_worktree_that_was_made_is_left_alone(
    repo: RepoBuilder, tmp_path: Path
) -> None:
    place = await Place.create(repo, tmp_path)
    says = "Git has it locked as 'pinata run-1/fix', which is not how it was made"
    assert await place.touch(reason="run-1/other") == says
    aside = place.root.with_name("aside")
    place.root.rename(aside)
    assert await place.touch() is None
    place.root.symlink_to(aside)
    assert await place.touch() == "it is not the folder that was made there"
    place.root.unlink()
    shutil.copytree(aside, place.root)
    assert await place.touch() == "it is not the folder that was made there"
    shutil.rmtree(place.root)
    aside.rename(place.root)
    parent = place.root.parent
    parent.rename(tmp_path / "moved")
    parent.symlink_to(tmp_path / "moved")
    assert await place.touch() == f"{parent} is a link"
    parent.unlink()
    (tmp_path / "moved").rename(parent)
    assert await place.touch() is None
    found = find_registration(place.shop.checkout, place.root)
    assert found is not None
    shutil.rmtree(found.git_dir)
    says = "Git knows no worktree there, so it cannot be compared with what was captured"
    assert await place.touch() == says


async def test_worktree_is_not_judged_by_times_that_cannot_be_trusted(
    repo: RepoBuilder, tmp_path: Path
) -> None:
    place = await Place.create(repo, tmp_path)
    said = await place.touch(since_ns=None)
    assert said is not None
    assert said.startswith("the clock was set back since work there ended")


async def test_lost_object_is_an_error_and_no_proof(repo: RepoBuilder, tmp_path: Path) -> None:
    place = await Place.create(repo, tmp_path)
    with pytest.raises(ExternalError):
        await place.touch(tree=TreeId("1" * 40))
