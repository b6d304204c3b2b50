"""Each write of a snapshot, a worktree and a capture, refused by the machine in each way.

A recording run lists the crash points that the work passes; then it is repeated once for each of
them and each error, so a new durable step is tested without touching this file.
"""

import itertools
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
import trio

from engine.core.errors import PinataError
from engine.core.ids import RunId, TaskId
from engine.system import faults
from tests.support.repos import RUN, RepoBuilder
from tests.support.workshop import Workshop, open_workshop
from tests.worktrees.test_contents import is_in_use
from worktrees.hygiene import Repository
from worktrees.lease import remove_worktree
from worktrees.patch import write_patch
from worktrees.refs import base_ref, delete_refs, keep, list_refs, task_ref
from worktrees.snapshot import take_snapshot

pytestmark = pytest.mark.slow

_CODES = {
    "ENOSPC": "No space left on device",
    "EACCES": "Permission denied",
    "EIO": "Input/output error",
}
Work = Callable[[], Awaitable[object]]
Point = tuple[str, int]


@pytest.fixture
async def shop(repo: RepoBuilder, tmp_path: Path) -> Workshop:
    """A snapshot of a checkout with uncommitted work."""
    repo.write("edited.txt", "uncommitted\n")
    return await open_workshop(repo, tmp_path / "state")


async def points_of(record: Path, work: Work) -> list[Point]:
    """Return every crash point that `work` passes, with the number of the pass."""
    faults.install(f"record:{record}")
    try:
        await work()
    finally:
        faults.install("")
    passes: Counter[str] = Counter()
    points = []
    for name in (await trio.to_thread.run_sync(record.read_text)).splitlines():
        passes[name] += 1
        points.append((name, passes[name]))
    assert points
    return points


async def refused(point: Point, code: str, work: Work) -> None:
    """Do `work` while the machine refuses a write at a point, and see that it says so."""
    name, number = point
    faults.install(f"error:{name}:{number}:{code}")
    try:
        with pytest.raises(PinataError, match=_CODES[code]) as caught:
            await work()
    finally:
        faults.install("")
    assert "\n" not in str(caught.value)


async def test_a_snapshot_that_cannot_be_written_can_be_taken_again(
    repo: RepoBuilder, shop: Workshop, tmp_path: Path
) -> None:
    runs = (RunId(f"run-{number}") for number in itertools.count(2))
    before = repo.facts()

    async def take(run: RunId) -> None:
        again = await take_snapshot(shop.checkout, run, shop.scratch, include_uncommitted=True)
        assert again.tree == shop.snapshot.tree

    points = await points_of(tmp_path / "points", lambda: take(next(runs)))
    for point, code in itertools.product(points, _CODES):
        run = next(runs)
        await refused(point, code, partial(take, run))
        assert not is_in_use(shop.scratch)
        await take(run)
        assert repo.ask("rev-parse", base_ref(run)) != repo.ask("rev-parse", "HEAD")
    assert repo.facts() == before


def nothing_left(repo: RepoBuilder, shop: Workshop) -> bool:
    places = (shop.path("x").parent, shop.seed("x").parent, shop.scratch)
    listed = repo.ask("worktree", "list", "--porcelain")
    return listed.count("worktree ") == 1 and not any(map(is_in_use, places))


async def test_a_worktree_that_cannot_be_made_or_removed_leaves_nothing_in_the_way(
    repo: RepoBuilder, shop: Workshop, tmp_path: Path
) -> None:
    async def make() -> None:
        await shop.worktree("fix")

    async def remove() -> None:
        await remove_worktree(shop.checkout, shop.path("fix"), shop.seed("fix"), shop.lock)

    making = await points_of(tmp_path / "making", make)
    removing = await points_of(tmp_path / "removing", remove)
    for point, code in itertools.product(making, _CODES):
        await refused(point, code, make)
        if point[0] != "lease.published":
            assert nothing_left(repo, shop), (point, code)
            await make()
        await remove()
    for point, code in itertools.product(removing, _CODES):
        await make()
        await refused(point, code, remove)
        await remove()
        assert nothing_left(repo, shop), (point, code)


async def test_the_remains_of_a_killed_creation_that_cannot_be_removed_are_removed_later(
    repo: RepoBuilder, shop: Workshop, tmp_path: Path
) -> None:
    path, seed = shop.path("fix"), shop.seed("fix")

    async def make() -> None:
        await shop.worktree("fix")

    def leave_remains() -> None:
        seed.parent.mkdir(parents=True, exist_ok=True)
        seed.with_name(f"{seed.name}.intent").write_bytes(bytes(path))
        repo.git("worktree", "add", "--detach", "--lock", "--reason", "pinata run-1/fix", str(path))

    leave_remains()
    points = await points_of(tmp_path / "points", make)
    clearing = [point for point in points if point[0] in ("lease.unregistered", "lease.cleared")]
    assert len(clearing) == 2
    for point, code in itertools.product(clearing, _CODES):
        await remove_worktree(shop.checkout, path, seed, shop.lock)
        leave_remains()
        await refused(point, code, make)
        await make()


async def test_a_capture_that_cannot_be_kept_can_be_kept_again(
    repo: RepoBuilder, shop: Workshop, tmp_path: Path
) -> None:
    worktree = await shop.worktree("fix")
    worktree.root.joinpath("edited.txt").write_text("changed\n")
    attempts = itertools.count(1)
    target = tmp_path / "patches"
    target.mkdir()

    async def kept(attempt: int) -> None:
        captured = await shop.capture(worktree)
        assert [change.path for change in captured.changes] == [b"edited.txt"]
        await keep(shop.checkout, task_ref(RUN, TaskId("fix"), attempt), captured.tree)
        await write_patch(
            shop.checkout, shop.snapshot.tree, captured.tree, target / f"{attempt}.patch"
        )

    points = await points_of(tmp_path / "points", lambda: kept(next(attempts)))
    for point, code in itertools.product(points, _CODES):
        attempt = next(attempts)
        await refused(point, code, partial(kept, attempt))
        assert not is_in_use(shop.scratch)
        await kept(attempt)
        assert b"+changed" in target.joinpath(f"{attempt}.patch").read_bytes()
    assert not [path for path in target.iterdir() if path.suffix != ".patch"]
    await delete_all(shop.checkout, tmp_path)


async def delete_all(repo: Repository, folder: Path) -> None:
    """Delete the refs of the run, refused once at each point in each way."""

    async def delete() -> None:
        await delete_refs(repo, await list_refs(repo, "refs/pinata/run-1/"))

    for point, code in itertools.product([("refs.delete.started", 1)], _CODES):
        await refused(point, code, delete)
        assert await list_refs(repo, "refs/pinata/run-1/")
    await delete()
    assert not await list_refs(repo, "refs/pinata/run-1/")
