"""Many worktrees at once: all of them come about, none leaves a trace, and the loop stays free."""

import time
from pathlib import Path

import pytest
import trio

from benchmarks.lag import latest_tick_ms
from tests.support.projects import Project, builder, shell, submits
from tests.support.repos import RepoBuilder
from tests.support.workshop import Workshop, open_workshop
from worktrees.lease import remove_worktree

pytestmark = [pytest.mark.slow, pytest.mark.unmeasured]

AT_ONCE = 50
BUILDERS = 20
# On an idle machine it is 50 ms. Tests share theirs, so they only see a loop that really stood.
MOST_LATE_MS = 500


def registered(repo: RepoBuilder) -> list[str]:
    """Return the paths of the linked worktrees that Git knows, sorted."""
    lines = repo.ask("worktree", "list", "--porcelain").splitlines()
    found = [line for line in lines if line.startswith("worktree ")]
    return sorted(line.removeprefix("worktree ") for line in found[1:])


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def make(shop: Workshop, numbers: range, *, at_once: bool) -> float:
    """Make a worktree for each number and return how many seconds it took."""
    before = time.monotonic()
    async with trio.open_nursery() as nursery:
        for number in numbers:
            if at_once:
                nursery.start_soon(shop.worktree, str(number))
            else:
                await shop.worktree(str(number))
    return time.monotonic() - before


async def remove(shop: Workshop, numbers: range) -> None:
    """Remove the worktrees of all numbers at once."""
    async with trio.open_nursery() as nursery:
        for number in map(str, numbers):
            places = (shop.path(number), shop.seed(number), shop.lock)
            nursery.start_soon(remove_worktree, shop.checkout, *places)


async def test_fifty_at_once_all_come_about_and_go_without_a_trace(tmp_path: Path) -> None:
    repo = RepoBuilder.create(tmp_path / "repo", {f"{n}.txt": f"{n}\n" for n in range(20)})
    before = repo.facts()
    shop = await open_workshop(repo, tmp_path / "state")
    refs = repo.git("for-each-ref")
    together = await make(shop, range(AT_ONCE), at_once=True)
    assert registered(repo) == sorted(str(shop.path(str(n))) for n in range(AT_ONCE))
    for number in map(str, range(AT_ONCE)):
        assert len(files_below(shop.path(number))) == len(files_below(shop.path("0")))
        assert shop.seed(number).is_file()
    assert not list(shop.seed("0").parent.glob("*.intent"))
    few = range(AT_ONCE, AT_ONCE + 5)
    in_turn = await make(shop, few, at_once=False) * AT_ONCE / len(few)
    assert together < 5 * in_turn
    await remove(shop, range(AT_ONCE + 5))
    assert registered(repo) == []
    assert files_below(shop.path("0").parent) == files_below(shop.seed("0").parent) == []
    assert repo.git("for-each-ref") == refs
    assert repo.facts() == before


async def test_run_of_twenty_builders_at_once_leaves_what_belongs_to_it(tmp_path: Path) -> None:
    project = Project.create(tmp_path, {"a.txt": "one\n"})
    names = [f"w{number}" for number in range(BUILDERS)]
    script = {
        name: [shell(f"echo {name} > {name}.txt"), submits(changedFiles=[f"{name}.txt"])]
        for name in names
    }
    project.let_work(BUILDERS)
    answer = await project.run(
        [builder(name, f"{name}.txt") for name in names],
        script,
        config={"limits": {"concurrency": BUILDERS}},
        noIntegratedChecksReason="a test needs none",
    )
    assert answer["status"] == "succeeded", answer
    run = answer["run"]
    folder = project.repo.root / ".git" / "pinata" / run
    places = registered(project.repo)
    assert [Path(place).name for place in places] == sorted(names)
    for name in names:
        made = {path.name for path in files_below(Path(places[0]).parent / name)}
        assert made == {".git", "a.txt", f"{name}.txt"}
    ours = {f"refs/pinata/{run}/{name}" for name in ("base", "evidence")}
    ours |= {f"refs/pinata/{run}/tasks/{name}/1" for name in names}
    assert {name for name in project.refs() if "pinata" in name} == ours
    kept = {f"{name}{part}" for name in names for part in ("", ".root", ".rules")}
    assert {path.name for path in (folder / "indexes").iterdir()} == kept
    assert files_below(folder / "scratch") == []


async def test_loop_is_free_while_eight_worktrees_are_made_and_captured(tmp_path: Path) -> None:
    files = {f"{number}.txt": f"{number}\n" * 100 for number in range(500)}
    repo = RepoBuilder.create(tmp_path / "repo", dict(files))
    shop = await open_workshop(repo, tmp_path / "state")

    async def write(number: int) -> None:
        worktree = await shop.worktree(f"{number}")
        await trio.to_thread.run_sync((worktree.root / "0.txt").write_text, "edited\n")
        found = await shop.capture(worktree)
        assert [change.path for change in found.changes] == [b"0.txt"]

    async def work() -> None:
        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(write, number)

    assert await latest_tick_ms(work) < MOST_LATE_MS
