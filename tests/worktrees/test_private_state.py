"""What Git keeps of one worktree alone is lost with it, so what is somebody's keeps it."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.repos import RepoBuilder
from tests.worktrees.test_untouched import Place
from worktrees.registration import find_registration, remaining_of

ENDED = "came or changed since work there ended"


def git_dir_of(place: Place) -> Path:
    """Return Git's own folder of a worktree."""
    found = find_registration(place.shop.checkout, place.root)
    assert found is not None
    return found.git_dir


async def later(repo: RepoBuilder, tmp_path: Path) -> tuple[Place, RepoBuilder]:
    """Return a worktree that work ended in, and how a person uses Git there afterwards."""
    place = await Place.create(repo, tmp_path)
    place.wait()
    return place, RepoBuilder(place.root, repo.env)


def stage(mine: RepoBuilder) -> None:
    """Stage a file and take it away, so that nothing of it is to be seen."""
    mine.write("mine.txt", "mine\n")
    mine.git("add", "mine.txt")
    (mine.root / "mine.txt").unlink()


def commit_and_go_back(mine: RepoBuilder) -> None:
    before = mine.ask("rev-parse", "HEAD").strip()
    mine.git("commit", "--quiet", "--allow-empty", "-m", "mine")
    mine.git("checkout", "--quiet", "--detach", before)


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (stage, "mine.txt is staged there and nowhere else"),
        (
            lambda mine: mine.git("update-ref", "refs/worktree/mine", "HEAD"),
            f"refs/worktree/mine in Git's folder of it {ENDED}",
        ),
        (
            lambda mine: mine.git("checkout", "--quiet", "-b", "mine"),
            "its HEAD was moved since work there ended",
        ),
        (commit_and_go_back, "its HEAD was moved since work there ended"),
        (
            lambda mine: mine.git("bisect", "start"),
            f"BISECT_LOG, BISECT_NAMES and BISECT_START in Git's folder of it {ENDED}",
        ),
    ],
)
async def test_what_a_person_does_with_git_keeps_the_worktree(
    act: Callable[[RepoBuilder], object], says: str, repo: RepoBuilder, tmp_path: Path
) -> None:
    place, mine = await later(repo, tmp_path)
    act(mine)
    assert await place.touch() == says
    assert await place.touch(tree=None) == says


async def test_unfinished_merge_keeps_the_worktree(repo: RepoBuilder, tmp_path: Path) -> None:
    repo.git("checkout", "--quiet", "-b", "side")
    repo.write("edited.txt", "side\n")
    repo.commit("side")
    repo.git("checkout", "--quiet", "-")
    place, mine = await later(repo, tmp_path)
    mine.git("checkout", "--quiet", "--", "edited.txt")
    mine.git("merge", "--no-commit", "--no-ff", "side")
    said = await place.touch()
    assert said is not None
    assert "MERGE_HEAD" in said
    assert said.endswith(f"in Git's folder of it {ENDED}")


async def test_looking_and_packing_keeps_nothing(repo: RepoBuilder, tmp_path: Path) -> None:
    place, mine = await later(repo, tmp_path)
    private = git_dir_of(place)
    index, log = private / "index", private / "logs" / "HEAD"
    before = index.stat().st_ctime_ns, log.stat().st_ctime_ns
    (place.root / "kept.txt").touch()
    mine.git("add", "edited.txt")
    mine.git("gc", "--quiet")
    assert index.stat().st_ctime_ns > before[0]
    assert log.stat().st_ctime_ns > before[1]
    assert await place.touch() is None


async def test_commit_that_only_the_log_of_head_leads_to_keeps_the_worktree(
    repo: RepoBuilder, tmp_path: Path
) -> None:
    place, mine = await later(repo, tmp_path)
    log = git_dir_of(place) / "logs" / "HEAD"
    tree = mine.ask("rev-parse", "HEAD^{tree}").strip()
    lost = mine.ask("commit-tree", "-m", "mine", tree).strip()
    kept = log.read_text()
    log.write_text(f"{kept}{'0' * 40} {lost} A <a@b> 1 +0000\tcommit: mine\n")
    assert await place.touch() == "the log of its HEAD names commits that nothing else leads to"
    repo.git("update-ref", "refs/heads/found", lost)
    assert await place.touch() is None
    log.write_text("")
    assert await place.touch() is None


async def test_index_that_cannot_be_read_keeps_the_worktree(
    repo: RepoBuilder, tmp_path: Path
) -> None:
    place, _ = await later(repo, tmp_path)
    (git_dir_of(place) / "index").write_text("mine\n")
    said = await place.touch()
    assert said is not None
    assert said.startswith("what is staged there cannot be told: git ls-files")


async def test_what_git_keeps_of_a_worktree_whose_folder_is_gone_stays(
    repo: RepoBuilder, tmp_path: Path
) -> None:
    place, mine = await later(repo, tmp_path)
    assert await place.touch() is None
    mine.git("update-ref", "refs/worktree/mine", "HEAD")
    place.root.rename(tmp_path / "away")
    assert await place.touch() == f"refs/worktree/mine in Git's folder of it {ENDED}"
    shutil.rmtree(git_dir_of(place) / "refs")
    assert await place.touch() is None
    (git_dir_of(place) / "HEAD").unlink()
    assert await place.touch() == "its HEAD was moved since work there ended"
    # Somebody found that it may go, and died while it went.
    remaining_of(place.root).mkdir()
    assert await place.touch() is None
