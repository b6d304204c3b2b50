"""Every crash point of applying and of taking back, by a kill and by each error of a disk."""

import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise, product
from pathlib import Path

import pytest
import trio

from engine.core.errors import ConflictError, ExternalError
from engine.system import faults
from tests.support.apply_child import Forker, do, open_forker
from tests.support.checkouts import Setting, build_many, set_up, write
from tests.support.copies import Copy
from worktrees.apply import load_journal
from worktrees.journal import Journal, JournalState

pytestmark = pytest.mark.slow

CODES = [
    pytest.param(("ENOSPC",), id="a full disk"),
    pytest.param(("EACCES", "EIO"), id="other errors", marks=pytest.mark.unmeasured),
]
Point = tuple[str, int]  # its name, and the number of the pass


@dataclass(frozen=True, slots=True)
class Site:
    """One checkout, kept as it was before each kind of work, so that each crash has a copy.

    Attributes:
        setting: the place of every copy.
        kept: the checkout before any work, by the name of the work.
    """

    setting: Setting
    kept: Path
    _copies: dict[str, Copy] = field(default_factory=dict)

    def keep(self, work: str) -> None:
        """Keep the checkout as it is now for `work`, and take it away."""
        self.setting.repo.root.rename(self.kept / work)

    @contextmanager
    def copied(self, work: str) -> Iterator[Setting]:
        """Put a copy in place that is ready for `work`."""
        # What a journal names is absolute, so that each copy lies where the first one was.
        root = self.setting.repo.root
        self._copies.setdefault(work, Copy(self.kept / work, root)).put_back()
        yield self.setting

    def assert_old(self) -> None:
        assert self.setting.now() == self.setting.before
        self._assert_own_files_of_git()

    def assert_new(self) -> None:
        assert self.setting.now() == self.setting.after
        self._assert_own_files_of_git()

    def _assert_own_files_of_git(self) -> None:
        for name in ("HEAD", "index"):
            now = self.setting.repo.git_dir.joinpath(name).read_bytes()
            assert now == (self.kept / "prepare" / ".git" / name).read_bytes()


@pytest.fixture
def site(tmp_path: Path, manner: str) -> Site:
    """A checkout, and changes of which each step is taken at least once; none is in place."""
    builder = build_many(tmp_path / "checkout")
    setting = trio.run(set_up, builder, _change)
    # A few files instead of many: they are looked at after every crash.
    builder.git("repack", "-a", "-d", "--keep-unreachable", "--quiet")
    builder.git("prune-packed", "--quiet")
    shutil.rmtree(builder.root / ".git" / "hooks")
    site = Site(setting, tmp_path / "kept")
    site.kept.mkdir()
    site.keep("prepare")
    for done, work in pairwise(("prepare", "execute", "rollback")):
        shutil.copytree(site.kept / done, setting.repo.root, symlinks=True)
        trio.run(do, setting, done)
        site.keep(work)
    return site


def _change(root: Path) -> None:
    """Remove a folder with its file, replace a dirty file, let a file and a folder swap types."""
    shutil.rmtree(root / "gone")
    write(root / "dirty.txt", b"two, and mine\r\n")
    root.joinpath("was-file").unlink()
    write(root / "was-file/inner", b"inner\n")
    shutil.rmtree(root / "was-folder")
    write(root / "was-folder", b"now a file\n")


@pytest.fixture
def forker(site: Site, manner: str) -> Iterator[Forker]:
    """Runs jobs in processes that may die."""
    with open_forker(dict(site.setting.repo.env), in_steps=manner == "in steps") as forker:
        yield forker


def points_of(site: Site, forker: Forker, work: str) -> list[Point]:
    """Return every crash point that `work` passes, with the number of the pass."""
    record = site.kept / "points"
    record.unlink(missing_ok=True)
    with site.copied(work) as setting:
        assert forker.run(setting, work, f"record:{record}") == 0
    passes: Counter[str] = Counter()
    points: list[Point] = []
    for name in record.read_text().splitlines():
        passes[name] += 1
        points.append((name, passes[name]))
    return points


@contextmanager
def killed(site: Site, forker: Forker, work: str, point: Point) -> Iterator[Setting]:
    """Put a copy in place in which `work` was killed at a point."""
    with site.copied(work) as setting:
        assert forker.run(setting, work, f"kill:{point[0]}:{point[1]}") == -signal.SIGKILL
        yield setting


def journal_of(setting: Setting) -> Journal | None:
    return trio.run(load_journal, setting.folder)


@pytest.mark.unmeasured
def test_a_preparation_killed_anywhere_can_be_made_again_or_taken_back(
    site: Site, forker: Forker
) -> None:
    for point in points_of(site, forker, "prepare"):
        with killed(site, forker, "prepare", point) as setting:
            site.assert_old()
            journal = journal_of(setting)
            if journal is None:
                trio.run(do, setting, "prepare")
                trio.run(do, setting, "execute")
                site.assert_new()
            else:
                trio.run(do, setting, "rollback")
                site.assert_old()


@pytest.mark.unmeasured
@pytest.mark.parametrize("recovery", ["completed", "taken back"])
def test_an_apply_killed_anywhere_can_be(site: Site, forker: Forker, recovery: str) -> None:
    for point in points_of(site, forker, "execute"):
        with killed(site, forker, "execute", point) as setting:
            if recovery == "completed":
                trio.run(do, setting, "resume")
                site.assert_new()
            else:
                trio.run(do, setting, "rollback")
                site.assert_old()


@pytest.mark.unmeasured
def test_a_rollback_killed_anywhere_goes_on_where_it_stopped(site: Site, forker: Forker) -> None:
    for point in points_of(site, forker, "rollback"):
        with killed(site, forker, "rollback", point) as setting:
            journal = journal_of(setting)
            assert journal is not None
            if journal.state is not JournalState.ROLLED_BACK:
                trio.run(do, setting, "rollback")
            site.assert_old()
    with site.copied("rollback") as setting:
        trio.run(do, setting, "rollback")
        trio.run(do, setting, "prepare")
        trio.run(do, setting, "execute")
        site.assert_new()


@contextmanager
def failing(point: Point, code: str) -> Iterator[None]:
    name, number = point
    faults.install(f"error:{name}:{number}:{code}")
    try:
        yield
    finally:
        faults.install("")


@pytest.mark.parametrize("codes", CODES)
@pytest.mark.parametrize("work", ["prepare", "execute"])
def test_an_apply_that_fails_anywhere_leaves_everything_as_it_was(
    site: Site, forker: Forker, work: str, codes: tuple[str, ...]
) -> None:
    for point, code in product(points_of(site, forker, work), codes):
        with site.copied(work) as setting:
            with failing(point, code), pytest.raises(ExternalError):
                trio.run(do, setting, work)
            site.assert_old()
            journal = journal_of(setting)
            assert journal is None or journal.state is JournalState.ROLLED_BACK
            assert not setting.folder.joinpath("slots-1").exists()


@pytest.mark.parametrize("codes", CODES)
def test_a_rollback_that_fails_anywhere_can_be_called_again(
    site: Site, forker: Forker, codes: tuple[str, ...]
) -> None:
    for point, code in product(points_of(site, forker, "rollback"), codes):
        with site.copied("rollback") as setting:
            with failing(point, code), pytest.raises(ExternalError):
                trio.run(do, setting, "rollback")
            with suppress(ConflictError):  # where only the last flush had failed
                trio.run(do, setting, "rollback")
            site.assert_old()
