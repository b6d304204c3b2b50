"""Every crash point of an integration that takes the place of another, and of its rollback."""

import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio

from engine.core.errors import ConflictError, ExternalError
from engine.system import faults
from tests.support.apply_child import RENEWED, Forker, do, open_forker
from tests.support.checkouts import Setting, set_up, write
from tests.support.movers import forget_renameat2
from tests.support.repos import RepoBuilder
from worktrees.apply import load_journal, settle
from worktrees.journal import Journal, JournalState

pytestmark = pytest.mark.slow

Point = tuple[str, int]  # its name, and the number of the pass


def first(root: Path) -> None:
    write(root / "edited.txt", b"first\n")
    shutil.rmtree(root / "folder")
    write(root / "new/added.txt", b"added\n")


def second(root: Path) -> None:
    write(root / "edited.txt", b"second\n")
    write(root / "new", b"a file now\n")
    write(root / "more/x.txt", b"x\n")


@dataclass(frozen=True, slots=True)
class Site:
    """Two changes, and a checkout in which the first is in; `kept` has what each work begins with.

    Attributes:
        old: from the start to what is in.
        new: from the start to what shall take its place.
    """

    old: Setting
    new: Setting
    kept: Path

    def keep(self, work: str) -> None:
        shutil.copytree(self.old.repo.root, self.kept / work, symlinks=True)

    @contextmanager
    def at(self, work: str) -> Iterator[None]:
        """Put in place what `work` begins with."""
        shutil.rmtree(self.old.repo.root)
        shutil.copytree(self.kept / work, self.old.repo.root, symlinks=True)
        yield

    def journal(self) -> Journal:
        journal = trio.run(load_journal, self.old.folder)
        assert journal is not None
        return journal


@pytest.fixture
def manner(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How files change places: as the kernel can, or where a test says so without its help."""
    chosen: str = getattr(request, "param", "in one step")
    if chosen == "in steps":
        forget_renameat2(monkeypatch)
    return chosen


@pytest.fixture
def site(repo: RepoBuilder, tmp_path: Path, manner: str) -> Site:
    old, new = trio.run(set_up, repo, first), trio.run(set_up, repo, second)
    site = Site(old, new, tmp_path / "kept")
    site.kept.mkdir()
    for work in ("prepare", "execute"):
        trio.run(do, old, work)
    trio.run(settle, site.journal(), JournalState.VERIFIED)
    for setting, work in ((new, "renew"), (new, "execute"), (new, "rollback")):
        site.keep(work)
        trio.run(do, setting, work)
    assert old.now() == old.before
    return site


@pytest.fixture
def forker(site: Site, manner: str) -> Iterator[Forker]:
    with open_forker(dict(site.old.repo.env), in_steps=manner == "in steps") as forker:
        yield forker


def points_of(site: Site, forker: Forker, work: str) -> list[Point]:
    record = site.kept / "points"
    with site.at(work):
        assert forker.run(site.new, work, f"record:{record}") == 0
    passes: Counter[str] = Counter()
    points: list[Point] = []
    for name in record.read_text().splitlines():
        passes[name] += 1
        points.append((name, passes[name]))
    record.unlink()
    return points


def kill(site: Site, forker: Forker, work: str, point: Point) -> None:
    assert forker.run(site.new, work, f"kill:{point[0]}:{point[1]}") == -signal.SIGKILL


def go_on(site: Site) -> None:
    """Do what the next integration of the new change does."""
    if site.journal().evidence_digest == RENEWED:
        trio.run(do, site.new, "resume")
    else:
        trio.run(do, site.new, "renew")
        trio.run(do, site.new, "execute")


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    ("manner", "work"),
    [("in one step", "renew"), ("in one step", "execute"), ("in steps", "execute")],
    indirect=["manner"],
)
def test_killed_anywhere_the_next_integration_ends_it_and_rollback_leads_to_the_start(
    site: Site, forker: Forker, work: str
) -> None:
    for point in points_of(site, forker, work):
        with site.at(work):
            kill(site, forker, work, point)
            if work == "renew":
                assert site.old.now() == site.old.after
            go_on(site)
            assert site.new.now() == site.new.after, point
            trio.run(do, site.new, "rollback")
            assert site.new.now() == site.new.before, point


@pytest.mark.unmeasured
def test_killed_anywhere_a_rollback_leads_to_the_start(site: Site, forker: Forker) -> None:
    for point in points_of(site, forker, "execute"):
        with site.at("execute"):
            kill(site, forker, "execute", point)
            trio.run(do, site.new, "rollback")
            assert site.new.now() == site.new.before, point


@pytest.mark.unmeasured
def test_a_rollback_of_both_killed_anywhere_goes_on_where_it_stopped(
    site: Site, forker: Forker
) -> None:
    for point in points_of(site, forker, "rollback"):
        with site.at("rollback"):
            kill(site, forker, "rollback", point)
            if site.journal().state is not JournalState.ROLLED_BACK:
                trio.run(do, site.new, "rollback")
            assert site.new.now() == site.new.before, point
            assert not list(site.new.folder.glob("slots-*")) or point[0].startswith("journal.")


@contextmanager
def failing(point: Point) -> Iterator[None]:
    faults.install(f"error:{point[0]}:{point[1]}:ENOSPC")
    try:
        yield
    finally:
        faults.install("")


@pytest.mark.parametrize("work", ["renew", "execute"])
def test_what_fails_anywhere_leaves_the_old_change_in_force(
    site: Site, forker: Forker, work: str
) -> None:
    for point in points_of(site, forker, work):
        with site.at(work):
            with failing(point), pytest.raises(ExternalError):
                trio.run(do, site.new, work)
            assert site.old.now() == site.old.after, point
            assert site.journal().state is JournalState.VERIFIED, point
            assert not site.new.folder.joinpath("slots-2").exists()
            go_on(site)
            assert site.new.now() == site.new.after, point


def test_a_rollback_of_both_that_fails_anywhere_can_be_called_again(
    site: Site, forker: Forker
) -> None:
    for point in points_of(site, forker, "rollback"):
        with site.at("rollback"):
            with failing(point), pytest.raises(ExternalError):
                trio.run(do, site.new, "rollback")
            with suppress(ConflictError):  # where only the last flush had failed
                trio.run(do, site.new, "rollback")
            assert site.new.now() == site.new.before, point
