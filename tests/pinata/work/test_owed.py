"""What is owed to a session by the files of its runs: nothing is lost, and nothing told twice."""

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from engine.core.ids import RunId
from engine.core.outcome import Status
from engine.logreader import LogReader, NewEvents
from engine.system import faults, locks
from pinata.work import owed as owed_module
from pinata.work.accounts import Accounts
from pinata.work.owed import DAMAGE, Owed, UnknownDeliveryError
from pinata.work.session import Session
from tests.support.guard import blocking_allowed
from tests.support.ledgers import PaperRun, paper_run

Told = tuple[RunId, int]
_POINTS = ("started", "written", "renamed", "durable")


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session.of("a session", {"XDG_STATE_HOME": str(tmp_path / "state")})


@pytest.fixture
def paper(tmp_path: Path, session: Session) -> PaperRun:
    """A run of the session that has just begun."""
    made = paper_run(tmp_path, session)
    made.enter()
    made.create()
    return made


def owing(accounts: Accounts) -> dict[Told, Status]:
    return {
        (owed.run, each.number): each.status
        for owed in accounts.look()
        for each in owed.settlements
    }


def damage(accounts: Accounts) -> dict[RunId, str]:
    return {owed.run: owed.damage for owed in accounts.look() if owed.damage is not None}


@contextmanager
def failing(point: str) -> Iterator[None]:
    faults.install(f"error:{point}:1:EIO")
    try:
        yield
    finally:
        faults.install("")


@contextmanager
def counted_reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Path]]:
    """Note each log that is read."""
    read: list[Path] = []

    class Counted(LogReader):
        def read(self) -> NewEvents:
            read.append(self._path)
            return super().read()

    with monkeypatch.context() as patched:
        patched.setattr(owed_module, "LogReader", Counted)
        yield read


class Play:
    """A session's files, and a host that may die at any moment, beside what must hold of both."""

    def __init__(self, folder: Path) -> None:
        session = Session.of("a session", {"XDG_STATE_HOME": str(folder / "state")})
        self.session = session
        self.runs = [paper_run(folder, session, number) for number in (1, 2)]
        for run in self.runs:
            run.enter()
            run.create()
        self.accounts = Accounts(session)
        # Confirmed for certain; and asked to be, when it may have come to pass or not.
        self.durable: set[Told] = set()
        self.doubtful: set[Told] = set()

    def settle(self, at: int, status: Status) -> None:
        self.runs[at].settle(status)

    def go_on(self, at: int) -> None:
        if self.runs[at].is_over:
            self.runs[at].go_on()

    def tear(self, at: int) -> None:
        self.runs[at].tear()

    def crash(self) -> None:
        self.accounts = Accounts(self.session)

    def confirm(self, which: int, point: str | None) -> None:
        told = sorted(owing(self.accounts))
        if not told:
            return
        key = told[which % len(told)]
        if point is None:
            self.accounts.confirm(*key)
            self.durable.add(key)
            return
        with failing(f"delivery.confirmed.{point}"), pytest.raises(OSError, match="Input"):
            self.accounts.confirm(*key)
        self.doubtful.add(key)
        self.crash()

    def check(self) -> None:
        """Whoever looks finds all that was not confirmed, and nothing that was."""
        happened = {
            (run.run, number): status
            for run in self.runs
            for number, status in enumerate(run.settled, 1)
        }
        for accounts in (self.accounts, Accounts(self.session)):
            found = owing(accounts)
            assert found.items() <= happened.items()
            assert not found.keys() & self.durable
            assert happened.keys() - found.keys() <= self.durable | self.doubtful


_STEPS = st.one_of(
    st.tuples(st.just("settle"), st.integers(0, 1), st.sampled_from([*Status][2:])),
    st.tuples(st.just("go_on"), st.integers(0, 1)),
    st.tuples(st.just("tear"), st.integers(0, 1)),
    st.tuples(st.just("crash")),
    st.tuples(st.just("confirm"), st.integers(0, 5), st.sampled_from([None, *_POINTS])),
)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.lists(_STEPS, max_size=14))
def test_no_settlement_is_lost_and_none_is_told_after_its_confirmation_is_durable(
    steps: list[tuple[object, ...]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        play = Play(Path(folder))
        for name, *arguments in steps:
            getattr(play, str(name))(*arguments)
            play.check()


def test_settlements_are_told_in_order_with_what_came_of_each(
    paper: PaperRun, session: Session
) -> None:
    accounts = Accounts(session)
    paper.settle(Status.FAILED, 70)
    paper.settle(at_ms=90)
    [owed] = accounts.look()
    assert (owed.run, owed.newest, owed.is_settled) == (paper.run, 2, True)
    assert [(one.number, one.at_ms, one.status, one.reason) for one in owed.settlements] == [
        (1, 70, Status.FAILED, "it failed"),
        (2, 90, Status.SUCCEEDED, None),
    ]
    paper.go_on()
    [owed] = accounts.look()
    assert (owed.newest, owed.is_settled) == (2, False)
    assert list(accounts.look({paper.run})) == []


def test_settled_run_is_not_read_again_once_all_is_confirmed(
    paper: PaperRun, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    paper.settle()
    with counted_reads(monkeypatch) as read:
        accounts = Accounts(session)
        assert len(owing(accounts)) == 1
        accounts.confirm(paper.run, 1)
        assert paper.confirmed() == {"1": paper.folder.events_file.stat().st_size}
        read.clear()
        for asked in (accounts, accounts, Accounts(session)):
            assert owing(asked) == {}
        assert read == []
        paper.settle(Status.REJECTED)
        for asked in (accounts, Accounts(session)):
            assert owing(asked) == {(paper.run, 2): Status.REJECTED}


def test_run_under_way_is_read_on_from_where_it_was_left(
    paper: PaperRun, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    with counted_reads(monkeypatch) as read:
        accounts = Accounts(session)
        for _ in range(3):
            [owed] = accounts.look()
            assert (owed.settlements, owed.is_settled) == ((), False)
        assert len(read) == 1
        paper.settle()
        assert owing(accounts) == {(paper.run, 1): Status.SUCCEEDED}
        assert len(read) == 2


def test_confirmation_in_another_order_says_nothing_of_the_log_too_early(
    paper: PaperRun, session: Session
) -> None:
    accounts = Accounts(session)
    paper.settle()
    paper.settle()
    accounts.confirm(paper.run, 2)
    assert paper.confirmed() == {"2": None}
    assert owing(Accounts(session)) == {(paper.run, 1): Status.SUCCEEDED}
    accounts.confirm(paper.run, 1)
    assert owing(accounts) == owing(Accounts(session)) == {}


def test_run_that_goes_on_when_its_settlement_is_confirmed_is_read_again(
    paper: PaperRun, session: Session
) -> None:
    paper.settle()
    paper.go_on()
    Accounts(session).confirm(paper.run, 1)
    assert paper.confirmed() == {"1": None}
    [owed] = Accounts(session).look()
    assert not owed.is_settled


def test_nothing_is_confirmed_that_was_never_owed(paper: PaperRun, session: Session) -> None:
    accounts = Accounts(session)
    paper.settle()
    for run, number in ((paper.run, 2), (paper.run, DAMAGE), (RunId("../x"), 1)):
        with pytest.raises(UnknownDeliveryError, match=f"no delivery {run}/{number} of this"):
            accounts.confirm(run, number)
    accounts.confirm(RunId("f" * 16), 1)
    assert paper.confirmed() == {}


def test_damaged_run_is_told_once_and_hides_no_other(
    tmp_path: Path, paper: PaperRun, session: Session
) -> None:
    other = paper_run(tmp_path, session, 2)
    other.enter()
    other.create()
    other.settle()
    paper.settle()
    with paper.folder.events_file.open("r+b") as log:
        log.write(b"*")
    accounts = Accounts(session)
    assert damage(accounts).keys() == {paper.run}
    assert "events.jsonl: line 1 is not a line of JSON" in damage(accounts)[paper.run]
    assert owing(accounts) == {(other.run, 1): Status.SUCCEEDED}
    with pytest.raises(UnknownDeliveryError):
        accounts.confirm(paper.run, 1)
    accounts.confirm(paper.run, DAMAGE)
    for asked in (accounts, Accounts(session)):
        assert damage(asked) == {}
        assert owing(asked) == {(other.run, 1): Status.SUCCEEDED}


def test_records_that_nobody_believes_any_more_are_told_although_nothing_new_happened(
    paper: PaperRun, session: Session
) -> None:
    accounts = Accounts(session)
    paper.settle()
    accounts.confirm(paper.run, 1)
    assert damage(accounts) == {}
    paper.folder.distrust_file.write_text("somebody wrote to run.json while it worked")
    for asked in (accounts, Accounts(session)):
        assert "cannot be believed: somebody wrote to run.json" in damage(asked)[paper.run]


def test_run_whose_record_is_missing_beside_a_log_is_damaged(
    paper: PaperRun, session: Session
) -> None:
    paper.folder.run_file.unlink()
    assert damage(Accounts(session)) == {paper.run: f"{paper.folder.run_file} is missing"}


def test_what_cannot_be_read_is_told_and_hides_no_other(
    tmp_path: Path, paper: PaperRun, session: Session
) -> None:
    other = paper_run(tmp_path, session, 2)
    other.enter()
    other.create()
    other.settle()
    shutil.rmtree(paper.folder.path)
    paper.folder.path.symlink_to(paper.folder.path)
    accounts = Accounts(session)
    assert "cannot be read: Too many levels" in damage(accounts)[paper.run]
    assert owing(accounts) == {(other.run, 1): Status.SUCCEEDED}


def test_damaged_entry_is_told_once_and_set_aside(paper: PaperRun, session: Session) -> None:
    entry = session.run_file(paper.run)
    for text, says in (
        ("{", "is damaged"),
        (entry.read_text().replace(paper.run, "f" * 16), "is the entry of another run"),
    ):
        entry.write_text(text)
        accounts = Accounts(session)
        assert says in damage(accounts)[paper.run]
        with pytest.raises(UnknownDeliveryError):
            accounts.confirm(paper.run, 1)
        accounts.confirm(paper.run, DAMAGE)
        assert list(accounts.look()) == []
        assert [path.name for path in session.runs.iterdir()] == [f"{paper.run}.unreadable"]


async def test_entry_whose_run_never_came_to_be_is_dropped_unless_it_is_being_made(
    tmp_path: Path, session: Session
) -> None:
    paper = paper_run(tmp_path, session)
    paper.enter()
    paper.folder.path.mkdir(parents=True)
    lock = paper.common / "pinata" / "locks" / f"run-{paper.run}.lock"
    lock.parent.mkdir()
    accounts = Accounts(session)
    async with locks.claim(lock, what="it", holder="process 1"):
        assert list(accounts.look()) == []
        assert session.run_file(paper.run).exists()
    with blocking_allowed():
        assert list(accounts.look()) == []
    assert not session.run_file(paper.run).exists()


def test_entry_stays_while_its_lock_is_held_by_somebody_who_cannot_be_seen(
    tmp_path: Path, session: Session
) -> None:
    paper = paper_run(tmp_path, session)
    paper.enter()
    paper.folder.path.mkdir(parents=True)
    lock = paper.common / "pinata" / "locks" / f"run-{paper.run}.lock"
    lock.parent.mkdir()
    accounts = Accounts(session)
    with lock.open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert list(accounts.look()) == []
        assert session.run_file(paper.run).exists()
    assert list(accounts.look()) == []
    assert not session.run_file(paper.run).exists()


def test_entry_that_cannot_be_removed_hides_no_other_run(
    tmp_path: Path, session: Session, paper: PaperRun, caplog: pytest.LogCaptureFixture
) -> None:
    paper.settle()
    other = paper_run(tmp_path, session, 2)
    other.enter()
    lock = other.common / "pinata" / "locks" / f"run-{other.run}.lock"
    lock.mkdir(parents=True)
    assert owing(Accounts(session)) == {(paper.run, 1): Status.SUCCEEDED}
    assert session.run_file(other.run).exists()
    assert f"run {other.run} is not there, and cannot be forgotten" in caplog.text


def test_run_that_somebody_removed_is_forgotten_and_one_whose_repository_is_away_is_not(
    tmp_path: Path, paper: PaperRun, session: Session
) -> None:
    paper.settle()
    accounts = Accounts(session)
    repository = paper.common.parent
    away = tmp_path / "away"
    repository.rename(away)
    assert owing(accounts) == {}
    away.rename(repository)
    assert owing(accounts) == {(paper.run, 1): Status.SUCCEEDED}
    shutil.rmtree(paper.folder.path)
    accounts.confirm(paper.run, 1)
    assert not paper.folder.path.exists()
    assert owing(accounts) == {}
    assert not session.run_file(paper.run).exists()
    accounts.confirm(paper.run, 1)


def test_what_the_session_is_owed_outlives_its_folder(
    tmp_path: Path, paper: PaperRun, session: Session
) -> None:
    busy, gone = paper_run(tmp_path, session, 2), paper_run(tmp_path, session, 3)
    for run in (busy, gone):
        run.enter()
        run.create()
    paper.settle()
    accounts = Accounts(session)
    assert len(list(accounts.look({busy.run}))) == 2
    shutil.rmtree(session.folder)
    shutil.rmtree(gone.folder.path)
    busy.settle()
    told = {(paper.run, 1): Status.SUCCEEDED, (busy.run, 1): Status.SUCCEEDED}
    assert owing(accounts) == told
    assert owing(Accounts(session)) == told
    assert not session.run_file(gone.run).exists()


def test_entry_that_cannot_be_written_again_keeps_nothing_from_the_session(
    paper: PaperRun, session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    paper.settle()
    accounts = Accounts(session)
    assert owing(accounts)
    session.run_file(paper.run).unlink()
    with failing("session.run.started"):
        assert owing(accounts) == {(paper.run, 1): Status.SUCCEEDED}
    assert f"the session's entry of run {paper.run} is gone" in caplog.text
    assert owing(accounts) == {(paper.run, 1): Status.SUCCEEDED}
    assert session.run_file(paper.run).exists()


def test_run_of_another_session_is_nobodys_business_here(tmp_path: Path, session: Session) -> None:
    paper = paper_run(tmp_path, session)
    paper.enter()
    paper.create("another session")
    paper.settle()
    for _ in range(2):
        assert owing(Accounts(session)) == {}


def test_confirmation_that_is_damaged_confirms_all_the_same(
    paper: PaperRun, session: Session
) -> None:
    accounts = Accounts(session)
    paper.settle()
    accounts.confirm(paper.run, 1)
    (paper.folder.deliveries / "1").write_text("{")
    (paper.folder.deliveries / ".1.0123.tmp").touch()
    assert owing(Accounts(session)) == {}


def test_session_without_a_run_is_owed_nothing(session: Session) -> None:
    assert list(Accounts(session).look()) == []
    session.runs.mkdir(parents=True)
    (session.runs / "notes.json").touch()
    assert list(Accounts(session).look()) == []


def test_only_what_is_to_be_told_counts_as_anything() -> None:
    assert not Owed(RunId("a" * 16), None, None).is_anything
