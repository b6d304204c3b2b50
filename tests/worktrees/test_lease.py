import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import trio

from engine.core.errors import ExternalError
from engine.core.ids import CommitId
from engine.system import faults
from engine.system.locks import claim
from tests.support.repos import RepoBuilder
from tests.support.workshop import Workshop, open_workshop
from tests.worktrees.test_contents import is_in_use, with_submodule
from worktrees.hygiene import GitError
from worktrees.lease import (
    ForeignWorktreeError,
    WorktreeNotWholeError,
    create_worktree,
    open_worktree,
    remove_worktree,
)
from worktrees.registration import delete_tree, find_registration, read_git_file


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def registered(repo: RepoBuilder) -> list[str]:
    """Return the paths of the linked worktrees that Git knows."""
    out = repo.ask("worktree", "list", "--porcelain", "-z")
    paths = [line for line in out.split("\0") if line.startswith("worktree ")]
    return sorted(path.removeprefix("worktree ") for path in paths[1:])


async def remove(shop: Workshop, name: str) -> None:
    await remove_worktree(shop.checkout, shop.path(name), shop.seed(name), shop.lock)


def nothing_left(repo: RepoBuilder, shop: Workshop) -> bool:
    """Whether no worktree, no record of one and no private index is left."""
    return not (
        registered(repo)
        or is_in_use(shop.path("x").parent)
        or is_in_use(shop.seed("x").parent)
        or is_in_use(shop.scratch)
    )


async def test_a_worktree_is_detached_locked_private_and_whole(
    repo: RepoBuilder, state: Path
) -> None:
    repo.write("edited.txt", "uncommitted\n")
    before = repo.facts()
    shop = await open_workshop(repo, state)
    worktree = await shop.worktree("fix")
    assert repo.facts() == before
    assert worktree.root == shop.path("fix")
    assert (worktree.root / "edited.txt").read_text() == "uncommitted\n"
    listed = repo.ask("worktree", "list", "--porcelain")
    assert f"HEAD {shop.snapshot.commit}\ndetached\nlocked pinata run-1/fix" in listed
    assert shop.path("fix").parent.stat().st_mode & 0o777 == 0o700
    own, seed = worktree.index.stat(), shop.seed("fix").stat()
    assert own.st_mtime_ns == seed.st_mtime_ns
    assert worktree.index.read_bytes() == shop.seed("fix").read_bytes()
    repo.git("worktree", "prune", "--expire=now")
    assert registered(repo) == [str(worktree.root)]
    await remove(shop, "fix")
    assert nothing_left(repo, shop)
    await remove(shop, "fix")


async def test_the_settings_of_the_repository_stay_whatever_form_of_paths_the_user_likes(
    repo: RepoBuilder, state: Path
) -> None:
    # Since version 2.48 Git would put relative paths, and an extension, into the repository.
    repo.git("config", "worktree.useRelativePaths", "true")
    before = (repo.root / ".git" / "config").read_bytes()
    shop = await open_workshop(repo, state)
    await shop.worktree("fix")
    assert (repo.root / ".git" / "config").read_bytes() == before


async def test_hooks_do_not_run(repo: RepoBuilder, state: Path, tmp_path: Path) -> None:
    shop = await open_workshop(repo, state)
    trace = tmp_path / "trace"
    repo.add_hooks(trace)
    await shop.worktree("fix")
    await remove(shop, "fix")
    assert not trace.exists()


async def test_eight_worktrees_of_one_name_at_once(repo: RepoBuilder, state: Path) -> None:
    shop = await open_workshop(repo, state)
    async with trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(shop.worktree, f"{number}/same")
    assert registered(repo) == sorted(str(shop.path(f"{number}/same")) for number in range(8))
    async with trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(remove, shop, f"{number}/same")
    assert registered(repo) == []


async def test_a_creation_waits_for_the_lock_and_can_be_cancelled_there(
    repo: RepoBuilder, state: Path
) -> None:
    shop = await open_workshop(repo, state)
    async with claim(shop.lock, what="test", holder="test"):
        with trio.move_on_after(0.05) as scope:
            await shop.worktree("fix")
    assert scope.cancelled_caught
    assert registered(repo) == []


async def test_what_is_not_ours_is_left_alone(repo: RepoBuilder, state: Path) -> None:
    shop = await open_workshop(repo, state)
    place = shop.path("fix")
    place.mkdir(parents=True)
    (place / "file.txt").write_text("mine")
    with pytest.raises(ForeignWorktreeError, match="move it away"):
        await shop.worktree("fix")
    with pytest.raises(ForeignWorktreeError, match="Git knows no worktree there"):
        await remove(shop, "fix")
    assert (place / "file.txt").read_text() == "mine"


async def test_a_worktree_of_the_user_is_left_alone(repo: RepoBuilder, state: Path) -> None:
    shop = await open_workshop(repo, state)
    place = shop.path("fix")
    repo.git("worktree", "add", "--quiet", "--detach", str(place))
    with pytest.raises(ForeignWorktreeError):
        await shop.worktree("fix")
    with pytest.raises(ForeignWorktreeError, match="None"):
        await remove(shop, "fix")
    shop.seed("fix").parent.mkdir(exist_ok=True)
    intent = shop.seed("fix").with_name("fix.intent")
    intent.write_bytes(os.fsencode(place))
    with pytest.raises(ForeignWorktreeError, match="None"):
        await shop.worktree("fix")
    assert (place / "kept.txt").exists()


async def test_a_finished_worktree_is_not_made_again(repo: RepoBuilder, state: Path) -> None:
    shop = await open_workshop(repo, state)
    worktree = await shop.worktree("fix")
    (worktree.root / "work.txt").write_text("hours of it")
    with pytest.raises(ForeignWorktreeError, match="something is there already"):
        await shop.worktree("fix")
    assert (worktree.root / "work.txt").exists()


async def test_a_commit_that_does_not_exist_leaves_nothing(repo: RepoBuilder, state: Path) -> None:
    shop = await open_workshop(repo, state)
    with pytest.raises(GitError):
        await shop.worktree("fix", CommitId("1" * 40))
    assert nothing_left(repo, shop)
    await shop.worktree("fix")


async def test_missing_files_after_a_success_are_noticed(
    repo: RepoBuilder, state: Path, tmp_path: Path
) -> None:
    # A filter that deletes another file stands for a disk that loses one.
    shop = await open_workshop(repo, state)
    losing = tmp_path / "losing"
    losing.write_text("#!/bin/sh\ncat\nrm -f kept.txt\n")
    losing.chmod(0o755)
    repo.git("config", "filter.losing.smudge", str(losing))
    # Files without a filter may be written last, so all of them have it.
    repo.write(".git/info/attributes", "* filter=losing\n")
    repo.write("zz", "zz")
    commit = repo.commit("losing")
    with pytest.raises(WorktreeNotWholeError, match=r"kept\.txt"):
        await shop.worktree("fix", commit)
    assert nothing_left(repo, shop)


async def test_a_filter_that_always_differs_is_let_pass(repo: RepoBuilder, state: Path) -> None:
    repo.git("config", "filter.odd.smudge", "tr a-z A-Z")
    repo.write(".gitattributes", "*.odd filter=odd\n")
    repo.write("x.odd", "odd\n")
    repo.commit("odd")
    shop = await open_workshop(repo, state)
    worktree = await shop.worktree("fix")
    assert (worktree.root / "x.odd").read_text() == "ODD\n"


async def test_a_repository_elsewhere_is_no_answer(
    repo: RepoBuilder, state: Path, tmp_path: Path
) -> None:
    shop = await open_workshop(repo, state)
    swapping = tmp_path / "swapping"
    swapping.write_text("#!/bin/sh\ncat\nrm -f .git\n")
    swapping.chmod(0o755)
    repo.git("config", "filter.swapping.smudge", str(swapping))
    repo.write(".git/info/attributes", "zz filter=swapping\n")
    repo.write("zz", "zz")
    commit = repo.commit("swapping")
    with pytest.raises(WorktreeNotWholeError, match="does not belong"):
        await shop.worktree("fix", commit)


async def wait_for(path: Path) -> None:
    """Return once another process has made `path`."""
    while not await trio.to_thread.run_sync(path.exists):  # noqa: ASYNC110  (no event crosses over)
        await trio.sleep(0.001)


HANG = "#!/bin/sh\ntouch {trace}\nexec sleep 100\n"


async def test_a_cancelled_creation_leaves_nothing(
    repo: RepoBuilder, state: Path, tmp_path: Path
) -> None:
    shop = await open_workshop(repo, state)
    trace, hanging = tmp_path / "trace", tmp_path / "hanging"
    hanging.write_text(HANG.format(trace=trace))
    hanging.chmod(0o755)
    repo.git("config", "filter.hanging.smudge", str(hanging))
    repo.write(".git/info/attributes", "zz filter=hanging\n")
    repo.git("config", "filter.hanging.clean", "cat")
    repo.write("zz", "zz")
    commit = repo.commit("hanging")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(shop.worktree, "fix", commit)
        await wait_for(trace)
        nursery.cancel_scope.cancel()
    assert nothing_left(repo, shop)
    repo.git("config", "--unset", "filter.hanging.smudge")
    await shop.worktree("fix", commit)


KILLED = """
import sys
from pathlib import Path
import trio
from engine.system import faults
from tests.support.repos import RepoBuilder, git_env
from tests.support.workshop import open_workshop
from tests.worktrees.test_lease import remove

async def main(root, home, state, plan):
    shop = await open_workshop(RepoBuilder(root, git_env(home)), state)
    faults.install(plan)
    await shop.worktree("fix")
    await remove(shop, "fix")

root, home, state = map(Path, sys.argv[1:4])
trio.run(main, root, home, state, sys.argv[4])
"""


def run_until_killed(repo: RepoBuilder, state: Path, plan: str) -> int:
    """Create and remove a worktree in another process; return how that ended."""
    arguments = [sys.executable, "-c", KILLED, str(repo.root), str(repo.home), str(state), plan]
    with ThreadPoolExecutor(1) as thread:
        done = thread.submit(
            lambda: subprocess.run(arguments, env=dict(os.environ), check=False)
        ).result()
    return done.returncode


@pytest.mark.slow
async def test_a_creation_or_removal_killed_at_any_step_can_be_repeated(
    repo: RepoBuilder, tmp_path: Path
) -> None:
    names = tmp_path / "names"
    assert run_until_killed(repo, tmp_path / "record", f"record:{names}") == 0
    passed = names.read_text().splitlines()
    assert {"lease.added", "lease.created", "lease.moved_aside", "lease.removed"} <= set(passed)
    for at, name in enumerate(passed):
        state = tmp_path / f"state-{at}"
        plan = f"kill:{name}:{passed[: at + 1].count(name)}"
        assert run_until_killed(repo, state, plan) == -signal.SIGKILL
        delete_tree(state / "scratch")
        shop = await open_workshop(repo, state)
        if name in passed[: passed.index("lease.published")]:
            worktree = await shop.worktree("fix")
            assert (worktree.root / "kept.txt").exists()
        await remove(shop, "fix")
        assert nothing_left(repo, shop), name


@pytest.mark.slow
async def test_git_killed_in_the_middle_is_cleared_by_the_next_creation(
    repo: RepoBuilder, state: Path, tmp_path: Path
) -> None:
    shop = await open_workshop(repo, state)
    intent = shop.seed("fix").with_name("fix.intent")
    intent.parent.mkdir()
    for reason in ("initializing", "pinata run-1/fix"):
        repo.git("worktree", "add", "--quiet", "--detach", "--lock", str(shop.path("fix")))
        registration = find_registration(shop.checkout, shop.path("fix"))
        assert registration is not None
        (registration.git_dir / "locked").write_text(reason)
        (shop.path("fix") / "kept.txt").unlink()
        intent.write_bytes(os.fsencode(shop.path("fix")))
        worktree = await shop.worktree("fix")
        assert (worktree.root / "kept.txt").exists()
        await remove(shop, "fix")
    assert nothing_left(repo, shop)


async def test_an_unfinished_worktree_can_be_removed(repo: RepoBuilder, state: Path) -> None:
    shop = await open_workshop(repo, state)
    repo.git("worktree", "add", "--quiet", "--detach", "--lock", str(shop.path("fix")))
    registration = find_registration(shop.checkout, shop.path("fix"))
    assert registration is not None
    (registration.git_dir / "locked").write_text("initializing\n")
    shop.seed("fix").parent.mkdir()
    with pytest.raises(ForeignWorktreeError, match="initializing"):
        await remove(shop, "fix")
    shop.seed("fix").with_name("fix.intent").write_bytes(os.fsencode(shop.path("fix")))
    await remove(shop, "fix")
    assert nothing_left(repo, shop)


async def test_a_worktree_whose_creation_never_began_can_be_removed(
    repo: RepoBuilder, state: Path
) -> None:
    shop = await open_workshop(repo, state)
    assert not shop.seed("fix").parent.exists()
    await remove(shop, "fix")
    assert not registered(repo)
    assert list(shop.seed("fix").parent.iterdir()) == []


@pytest.mark.parametrize("step", ["announced", "added", "created"])
async def test_a_failed_write_leaves_nothing(step: str, repo: RepoBuilder, state: Path) -> None:
    shop = await open_workshop(repo, state)
    faults.install(f"error:lease.{step}:1:ENOSPC")
    try:
        with pytest.raises(ExternalError, match="No space"):
            await shop.worktree("fix")
    finally:
        faults.install("")
    assert nothing_left(repo, shop)


async def test_the_checkout_may_be_a_linked_worktree(
    repo: RepoBuilder, state: Path, tmp_path: Path
) -> None:
    repo.git("worktree", "add", "--quiet", "-b", "side", str(tmp_path / "linked"))
    linked = RepoBuilder(tmp_path / "linked", repo.env)
    linked.write("edited.txt", "in the linked one\n")
    before = linked.facts()
    shop = await open_workshop(linked, state)
    worktree = await shop.worktree("fix")
    assert (worktree.root / "edited.txt").read_text() == "in the linked one\n"
    assert worktree.common_dir == repo.root / ".git"
    await remove(shop, "fix")
    assert linked.facts() == before


async def test_folders_without_write_permission_are_removed(repo: RepoBuilder, state: Path) -> None:
    shop = await open_workshop(repo, state)
    worktree = await shop.worktree("fix")
    sealed = worktree.root / "cache/sealed"
    sealed.mkdir(parents=True)
    (sealed / "file").write_text("x")
    sealed.chmod(0o500)
    await remove(shop, "fix")
    assert nothing_left(repo, shop)


def test_deleting_takes_files_links_and_nothing(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "target/kept").touch()
    (tmp_path / "link").symlink_to("target")
    for name in ("link", "file", "missing"):
        if name == "file":
            (tmp_path / name).touch()
        delete_tree(tmp_path / name)
        assert not os.path.lexists(tmp_path / name)
    assert (tmp_path / "target/kept").exists()


def test_git_files_of_other_forms_name_nothing(tmp_path: Path) -> None:
    (tmp_path / "odd").write_text("nonsense")
    (tmp_path / "relative").write_text("gitdir: ../x/y\n")
    assert read_git_file(tmp_path / "odd") is None
    assert read_git_file(tmp_path) is None
    assert read_git_file(tmp_path / "missing") is None
    assert read_git_file(tmp_path / "relative") == tmp_path.parent / "x/y"


async def test_damaged_registrations_are_passed_over(repo: RepoBuilder, state: Path) -> None:
    shop = await open_workshop(repo, state)
    assert find_registration(shop.checkout, shop.path("fix")) is None
    await shop.worktree("fix")
    records = repo.root / ".git/worktrees"
    (records / "a-file").touch()
    (records / "an-empty-folder").mkdir()
    found = find_registration(shop.checkout, shop.path("fix"))
    assert found is not None
    assert found.reason == "pinata run-1/fix"


async def test_a_worktree_can_be_made_from_another_one(repo: RepoBuilder, state: Path) -> None:
    shop = await open_workshop(repo, state)
    first = await shop.worktree("first")
    second = await create_worktree(
        first, shop.path("second"), shop.snapshot.commit, shop.seed("second"), shop.lock, "second"
    )
    assert second.common_dir == first.common_dir


async def test_a_worktree_is_found_again_by_its_path(repo: RepoBuilder, state: Path) -> None:
    shop = await open_workshop(repo, state)
    worktree = await shop.worktree("fix")
    (worktree.root / ".git").unlink()
    assert await open_worktree(shop.checkout, shop.path("fix")) == worktree
    repo.git("worktree", "add", "--quiet", "--detach", str(shop.path("other")))
    for name in ("other", "missing"):
        with pytest.raises(ForeignWorktreeError, match="no worktree of the engine"):
            await open_worktree(shop.checkout, shop.path(name))


async def test_places_may_be_named_through_links(repo: RepoBuilder, tmp_path: Path) -> None:
    (tmp_path / "real-state").mkdir()
    (tmp_path / "linked-state").symlink_to("real-state")
    (tmp_path / "linked-checkout").symlink_to("checkout")
    linked = RepoBuilder(tmp_path / "linked-checkout", repo.env)
    shop = await open_workshop(linked, tmp_path / "linked-state")
    worktree = await shop.worktree("fix")
    (worktree.root / "edited.txt").write_text("after\n")
    assert len((await shop.capture(worktree)).changes) == 1
    assert await open_worktree(shop.checkout, shop.path("fix")) == worktree
    await remove(shop, "fix")
    assert nothing_left(repo, shop)


async def test_the_git_folder_may_lie_elsewhere(repo: RepoBuilder, tmp_path: Path) -> None:
    repo.git("init", "--quiet", "--separate-git-dir", str(tmp_path / "elsewhere.git"))
    shop = await open_workshop(repo, tmp_path / "state")
    assert shop.checkout.common_dir == tmp_path / "elsewhere.git"
    worktree = await shop.worktree("fix")
    assert worktree.git_dir == tmp_path / "elsewhere.git/worktrees/fix"
    await remove(shop, "fix")
    assert nothing_left(repo, shop)


async def test_a_submodule_can_be_the_checkout(repo: RepoBuilder, tmp_path: Path) -> None:
    with_submodule(repo, tmp_path)
    inner = RepoBuilder(repo.root / "lib", repo.env)
    before = inner.facts()
    shop = await open_workshop(inner, tmp_path / "state")
    worktree = await shop.worktree("fix")
    (worktree.root / "kept.txt").write_text("after\n")
    changes = (await shop.capture(worktree)).changes
    assert [change.path for change in changes] == [b"kept.txt"]
    await remove(shop, "fix")
    assert inner.facts() == before
