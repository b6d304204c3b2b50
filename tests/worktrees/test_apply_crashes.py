"""Every crash point of applying and of taking back, by a kill and by a full disk."""

import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import trio

from engine.core.errors import ConflictError, ExternalError
from engine.system import faults
from tests.support.apply_child import Forker, do, open_forker
from tests.support.checkouts import Setting, build_many, set_up, write
from worktrees.apply import load_journal, resume, rollback, verify_applied
from worktrees.journal import Journal, JournalState
from worktrees.state import StateTriple, measure

pytestmark = pytest.mark.slow

Point = tuple[str, int]  # its name, and the number of the pass


@dataclass(frozen=True, slots=True)
class Site:
    """One prepared checkout that can be copied, so that each crash has one of its own.

    Attributes:
        state: of the checkout, which each copy shares.
    """

    setting: Setting
    state: StateTriple
    copies: Path

    def copy(self, name: str) -> Setting:
        root = self.copies / name
        shutil.copytree(self.setting.repo.root, root, symlinks=True)
        repo = replace(
            self.setting.repo, root=root, git_dir=root / ".git", common_dir=root / ".git"
        )
        folder = root / self.setting.folder.relative_to(self.setting.repo.root)
        return replace(self.setting, repo=repo, folder=folder)

    @contextmanager
    def copied(self) -> Iterator[Setting]:
        setting = self.copy("copy")
        yield setting
        shutil.rmtree(setting.repo.root)

    def assert_old(self, setting: Setting) -> None:
        assert setting.now() == setting.before
        assert state_of(setting) == self.state

    def assert_new(self, setting: Setting) -> None:
        assert setting.now() == setting.after
        state = state_of(setting)
        assert (state.head, state.index_digest) == (self.state.head, self.state.index_digest)
        journal = journal_of(setting)
        assert journal is not None
        assert trio.run(verify_applied, setting.repo, journal) == ()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A checkout, and changes of which each step is taken at least once."""
    top = tmp_path_factory.mktemp("crashes")
    setting = trio.run(set_up, build_many(top / "checkout"), _change)
    return Site(setting, state_of(setting), top)


def _change(root: Path) -> None:
    """Remove a folder with its file, replace a dirty file, let a file and a folder swap types."""
    shutil.rmtree(root / "gone")
    write(root / "dirty.txt", b"two, and mine\r\n")
    root.joinpath("was-file").unlink()
    write(root / "was-file/inner", b"inner\n")
    shutil.rmtree(root / "was-folder")
    write(root / "was-folder", b"now a file\n")


@pytest.fixture
def forker(site: Site) -> Iterator[Forker]:
    """Runs jobs in processes that may die."""
    with open_forker(dict(site.setting.repo.env)) as forker:
        yield forker


def points_of(site: Site, forker: Forker, work: str) -> list[Point]:
    """Return every crash point that `work` passes, with the number of the pass."""
    setting = site.copy(work)
    record = site.copies / "points"
    record.unlink(missing_ok=True)
    if work == "rollback":
        trio.run(do, setting, "apply")
    assert forker.run(setting, work, f"record:{record}") == 0
    shutil.rmtree(setting.repo.root)
    passes: Counter[str] = Counter()
    points: list[Point] = []
    for name in record.read_text().splitlines():
        passes[name] += 1
        points.append((name, passes[name]))
    return points


def kill(forker: Forker, setting: Setting, work: str, point: Point) -> None:
    assert forker.run(setting, work, f"kill:{point[0]}:{point[1]}") == -signal.SIGKILL


def state_of(setting: Setting) -> StateTriple:
    return trio.run(measure, setting.repo, setting.repo.common_dir)


def journal_of(setting: Setting) -> Journal | None:
    return trio.run(load_journal, setting.folder)


@pytest.mark.parametrize("recovery", ["completed", "taken back"])
def test_an_apply_killed_anywhere_can_be(site: Site, forker: Forker, recovery: str) -> None:
    for point in points_of(site, forker, "apply"):
        with site.copied() as setting:
            kill(forker, setting, "apply", point)
            journal = journal_of(setting)
            if journal is None:
                site.assert_old(setting)
                trio.run(do, setting, "apply")
                site.assert_new(setting)
            elif recovery == "completed":
                trio.run(resume, setting.repo, journal)
                site.assert_new(setting)
            else:
                trio.run(rollback, setting.repo, journal)
                site.assert_old(setting)


def test_a_rollback_killed_anywhere_goes_on_where_it_stopped(site: Site, forker: Forker) -> None:
    for point in points_of(site, forker, "rollback"):
        with site.copied() as setting:
            trio.run(do, setting, "apply")
            kill(forker, setting, "rollback", point)
            journal = journal_of(setting)
            assert journal is not None
            if journal.state is not JournalState.ROLLED_BACK:
                trio.run(rollback, setting.repo, journal)
            site.assert_old(setting)
            trio.run(do, setting, "apply")
            site.assert_new(setting)


@contextmanager
def failing(point: Point) -> Iterator[None]:
    name, number = point
    faults.install(f"error:{name}:{number}:ENOSPC")
    try:
        yield
    finally:
        faults.install("")


def test_an_apply_that_fails_anywhere_leaves_everything_as_it_was(
    site: Site, forker: Forker
) -> None:
    for point in points_of(site, forker, "apply"):
        with site.copied() as setting:
            with failing(point), pytest.raises(ExternalError):
                trio.run(do, setting, "apply")
            site.assert_old(setting)
            journal = journal_of(setting)
            assert journal is None or journal.state is JournalState.ROLLED_BACK
            trio.run(do, setting, "apply")
            site.assert_new(setting)


def test_a_rollback_that_fails_anywhere_can_be_called_again(site: Site, forker: Forker) -> None:
    for point in points_of(site, forker, "rollback"):
        with site.copied() as setting:
            trio.run(do, setting, "apply")
            with failing(point), pytest.raises(ExternalError):
                trio.run(do, setting, "rollback")
            with suppress(ConflictError):  # where only the last flush had failed
                trio.run(do, setting, "rollback")
            site.assert_old(setting)
