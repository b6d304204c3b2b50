"""Cancelling in the middle of an operation leaves nothing that the next one stumbles over."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from tests.support.repos import RUN, RepoBuilder
from tests.support.workshop import Workshop, open_workshop
from tests.worktrees.test_contents import is_in_use
from tests.worktrees.test_lease import HANG, wait_for
from worktrees.hygiene import Repository
from worktrees.patch import write_patch
from worktrees.refs import base_ref, keep
from worktrees.snapshot import take_snapshot
from worktrees.state import measure

Operation = Callable[[Workshop, Repository], Awaitable[object]]


async def snapshot(shop: Workshop, worktree: Repository) -> None:
    await take_snapshot(shop.checkout, RUN, shop.scratch, include_uncommitted=True)


async def measurement(shop: Workshop, worktree: Repository) -> None:
    await measure(shop.checkout, shop.scratch)


async def captured(shop: Workshop, worktree: Repository) -> None:
    await shop.capture(worktree)


def hang_in_filters(repo: RepoBuilder, trace: Path) -> None:
    """Let Git wait for ever as soon as it reads a file that ends in `.slow`."""
    hanging = repo.home / "hanging"
    hanging.write_text(HANG.format(trace=trace))
    hanging.chmod(0o755)
    repo.git("config", "filter.hanging.clean", str(hanging))
    repo.write(".git/info/attributes", "*.slow filter=hanging\n")


@pytest.mark.parametrize(
    "operation", [snapshot, measurement, captured], ids=lambda operation: operation.__name__
)
async def test_a_reading_that_is_cancelled_leaves_nothing(
    operation: Operation, repo: RepoBuilder, tmp_path: Path
) -> None:
    shop = await open_workshop(repo, tmp_path / "state")
    worktree = await shop.worktree("fix")
    for root in (repo.root, worktree.root):
        (root / "x.slow").write_text("slow\n")
    before = repo.facts()
    trace = tmp_path / "trace"
    hang_in_filters(repo, trace)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(operation, shop, worktree)
        await wait_for(trace)
        nursery.cancel_scope.cancel()
    repo.git("config", "--unset", "filter.hanging.clean")
    assert repo.facts() == before
    assert not is_in_use(shop.scratch)
    assert not list_locks(repo)
    if operation is captured:
        assert [change.path for change in (await shop.capture(worktree)).changes] == [b"x.slow"]
    else:
        assert (await measure(shop.checkout, shop.scratch)).head == shop.snapshot.head


def list_locks(repo: RepoBuilder) -> list[Path]:
    return list((repo.root / ".git").rglob("*.lock"))


async def test_a_patch_and_a_ref_that_are_cancelled_are_whole_or_absent(
    repo: RepoBuilder, tmp_path: Path
) -> None:
    found = await repo.discovered()
    before = repo.ask("rev-parse", "HEAD^{tree}")
    repo.write("big.txt", "line\n" * 200_000)
    head = repo.commit("big")
    shop = await open_workshop(repo, tmp_path / "state")
    after = shop.snapshot.tree
    folder = tmp_path / "patches"
    folder.mkdir()
    for delay_s in (0.0, 0.001, 0.003, 0.006):
        with trio.move_on_after(delay_s):
            await write_patch(found, type(after)(before), after, folder / "fix.patch")
        with trio.move_on_after(delay_s):
            await keep(found, f"{base_ref(RUN)}-{delay_s}", head)
        assert set(names_of(folder)) <= {"fix.patch"}
        assert not list_locks(repo)
        await keep(found, f"{base_ref(RUN)}-{delay_s}", head)
    patch = await write_patch(found, type(after)(before), after, folder / "fix.patch")
    assert patch.bytes > 1_000_000


def names_of(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]
