"""A worktree is given up only while nobody has anything in it, whatever happens meanwhile."""

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from engine.core.errors import ExternalError
from engine.system import faults
from tests.support.repos import RepoBuilder
from tests.worktrees.test_lease import registered
from tests.worktrees.test_untouched import Place
from worktrees import giving_up
from worktrees.aside import aside_of, put_back
from worktrees.giving_up import give_up_worktree
from worktrees.lease import ForeignWorktreeError, forget_worktree
from worktrees.registration import find_registration
from worktrees.untouched import find_touch

Step = Callable[[], object]


async def give_up(place: Place) -> str | None:
    shop = place.shop
    return await give_up_worktree(shop.checkout, place.left, shop.lock, shop.scratch)


def after_the_look(monkeypatch: pytest.MonkeyPatch, step: Step) -> None:
    """Have somebody do something once a worktree has been found to hold nothing of anybody."""

    async def look(*arguments: object) -> str | None:
        found = await find_touch(*arguments)  # type: ignore[arg-type]  # passed on as they are
        step()
        return found

    monkeypatch.setattr(giving_up, "find_touch", look)


async def test_worktree_of_nobody_is_gone(repo: RepoBuilder, tmp_path: Path) -> None:
    place = await Place.create(
        repo, tmp_path, lambda root: (root / "made.ignored").write_text("made\n")
    )
    assert await give_up(place) is None
    assert registered(repo) == []
    assert not list(place.root.parent.iterdir())
    assert not place.left.seed_index.exists()
    assert await give_up(place) is None


async def test_worktree_that_somebody_touched_before_is_not_even_moved(
    repo: RepoBuilder, tmp_path: Path
) -> None:
    place = await Place.create(repo, tmp_path)
    (place.root / "mine.txt").write_text("mine\n")
    inode, changed = place.root.stat().st_ino, place.root.stat().st_ctime_ns
    assert await give_up(place) == "mine.txt differs from what was captured"
    assert (place.root.stat().st_ino, place.root.stat().st_ctime_ns) == (inode, changed)


@pytest.mark.parametrize("name", ["mine.txt", "mine.ignored", "edited.txt", "folder/inner.txt"])
async def test_what_somebody_saves_after_the_look_stays(
    name: str, repo: RepoBuilder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = await Place.create(repo, tmp_path)
    after_the_look(monkeypatch, lambda: (place.root / name).write_text("mine!\n"))
    reason = await give_up(place)
    assert reason is not None
    assert name in reason
    assert reason.endswith("came, went or changed while it was about to be removed")
    assert (place.root / name).read_text() == "mine!\n"
    assert await find_touch(place.shop.checkout, place.left, place.shop.scratch) is not None


async def test_what_somebody_tells_git_after_the_look_stays(
    repo: RepoBuilder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = await Place.create(repo, tmp_path)
    found = find_registration(place.shop.checkout, place.root)
    assert found is not None
    mine = found.git_dir / "MERGE_HEAD"
    after_the_look(monkeypatch, lambda: mine.write_text("mine\n"))
    reason = await give_up(place)
    assert reason is not None
    assert "MERGE_HEAD in Git's folder of it came, went or changed" in reason
    assert mine.exists()
    assert place.root.is_dir()


async def test_worktree_in_which_somebody_has_a_file_open_stays(
    repo: RepoBuilder, tmp_path: Path
) -> None:
    place = await Place.create(repo, tmp_path)
    with (place.root / "kept.txt").open("r+") as mine:
        reason = await give_up(place)
        mine.write("mine")
    assert reason is not None
    assert "may write there: end it, or have it leave, and call again" in reason
    assert (place.root / "kept.txt").read_text() == "mine\n"


async def test_what_comes_to_stand_at_its_place_meanwhile_is_not_moved_either(
    repo: RepoBuilder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = await Place.create(repo, tmp_path)
    aside, mine = aside_of(place.root), place.root / "mine.txt"

    def find_occupants(folder: Path) -> list[object]:
        (folder / "saved.txt").write_text("saved\n")
        place.root.mkdir()
        mine.write_text("mine\n")
        return []

    monkeypatch.setattr(giving_up, "find_occupants", find_occupants)
    reason = await give_up(place)
    assert reason is not None
    assert reason.endswith(f"it lies at {aside}, as something else stands at its place by now")
    assert (mine.read_text(), (aside / "saved.txt").read_text()) == ("mine\n", "saved\n")
    assert await give_up(place) == "it is not the folder that was made there"
    mine.unlink()
    place.root.rmdir()
    assert put_back(place.root)
    assert (place.root / "saved.txt").read_text() == "saved\n"
    aside.mkdir()
    (place.root / "saved.txt").unlink()
    says = f"{aside} is in the way: look whether anything in it is yours, and remove it"
    assert await give_up(place) == says


async def test_worktree_that_was_set_aside_is_looked_at_there(
    repo: RepoBuilder, tmp_path: Path
) -> None:
    place = await Place.create(repo, tmp_path)
    aside = place.root.rename(aside_of(place.root))
    assert await place.touch() is None
    (aside / "mine.txt").write_text("mine\n")
    assert await place.touch() == "mine.txt differs from what was captured"
    assert put_back(place.root)
    assert await place.touch() == "mine.txt differs from what was captured"


async def test_refusal_at_any_step_leaves_what_can_be_given_up_later(
    repo: RepoBuilder, tmp_path: Path
) -> None:
    steps = ("set_aside", "condemned", "forgotten", "removed")
    for step, code in itertools.product(steps, ("ENOSPC", "EROFS")):
        folder = tmp_path / f"{step}-{code}"
        await trio.to_thread.run_sync(folder.mkdir)
        place = await Place.create(repo, folder)
        try:
            faults.install(f"error:lease.{step}:1:{code}")
            with pytest.raises(ExternalError):
                await give_up(place)
        finally:
            faults.install("")
        assert place.root.exists() == (step == "set_aside")
        assert await give_up(place) is None
        assert not list(place.root.parent.iterdir())


async def test_worktree_that_git_has_locked_otherwise_is_not_forgotten(
    repo: RepoBuilder, tmp_path: Path
) -> None:
    place = await Place.create(repo, tmp_path)
    found = find_registration(place.shop.checkout, place.root)
    assert found is not None
    (found.git_dir / "locked").write_text("mine\n")
    with pytest.raises(ForeignWorktreeError, match="locked as 'mine'"):
        await forget_worktree(
            place.shop.checkout, place.root, place.left.seed_index, place.shop.lock
        )
    assert place.root.is_dir()
