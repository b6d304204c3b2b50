"""What a session is owed of a run: the settlements that it was not told of yet.

How often the run settled is counted from its log, and what the session was told of lies in the
run's own folder, a file for each settlement; nothing else is kept about it. Every function blocks.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from engine.core.errors import CorruptionError, UsageError, reason_of
from engine.core.events import RunResumed, RunSettled
from engine.core.ids import RunId
from engine.core.outcome import Status
from engine.logreader import LogReader
from engine.records.session import (
    RECORD_LIMIT_BYTES,
    DeliveredV1,
    SessionRunV1,
    decode_delivered,
    encode_record,
)
from engine.store import RunFolder, runs_dir
from engine.system import files, locks
from pinata.work.history import read_record
from pinata.work.own_records import FileFacts, file_facts
from pinata.work.places import Places

# What is told instead of settlements where the records of a run are damaged.
DAMAGE = 0
_NUMBER = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class Settlement:
    """That a run settled.

    Attributes:
        number: 1 is the first of its run.
        at_ms: epoch milliseconds.
    """

    number: int
    at_ms: int
    status: Status
    reason: str | None


@dataclass(frozen=True, slots=True)
class Owed:
    """What a session was not told yet of one run, and how that run stands.

    Attributes:
        folder: the run's; None when what leads to it is damaged.
        root: the checkout that it was started from, under the same condition.
        settlements: those that it was not told of, the oldest first.
        newest: the number of its newest settlement, 0 before the first.
        is_settled: it has not gone on after that.
        damage: what is wrong with its records if the session was not told of that.
    """

    run: RunId
    folder: RunFolder | None
    root: Path | None
    settlements: tuple[Settlement, ...] = ()
    newest: int = 0
    is_settled: bool = False
    damage: str | None = None

    @property
    def is_anything(self) -> bool:
        """Whether there is something to tell."""
        return bool(self.settlements) or self.damage is not None


class UnknownDeliveryError(UsageError):
    """Nothing of the kind was ever owed."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"there is no delivery {key} of this session")


class Account:
    """What is owed of one run, and how far its records were read.

    Attributes:
        folder: the run's; it need not be there.
    """

    def __init__(self, key: str, run: RunId, places: Places, root: Path) -> None:
        """Begin without having read anything.

        Args:
            key: the session's.
            run: a run that the session remembers.
            places: where that lies.
            root: the checkout that it was started from.
        """
        self.folder = RunFolder(runs_dir(places.common) / run)
        # Made once: making a path takes longer than looking at what stands there.
        self._files = self.folder.run_file, self.folder.events_file, self.folder.distrust_file
        self._key = key
        self._run = run
        self._places = places
        self._root = root
        self._told: set[int] | None = None
        # How long the log was when the session had been told of all that it held.
        self._told_bytes: int | None = None
        self._quiet: tuple[_Facts, Owed] | None = None
        # What the record was like when it said that the run is the session's.
        self._ours: FileFacts | None = None
        self._forget()

    def _forget(self) -> None:
        self._log = LogReader(self.folder.events_file, self._run)
        self._settlements: list[Settlement] = []
        self._is_settled = False

    def look(self) -> Owed | None:
        """Return how the run stands; None when it is not there."""
        facts = self._facts()
        if self._quiet is not None and self._quiet[0] == facts:
            return self._quiet[1]
        if facts.record is None and facts.log is None:
            return None
        owed = self._read(facts)
        if not owed.is_anything:
            self._quiet = facts, owed
            if owed.is_settled:
                self._forget()
        return owed

    def _facts(self) -> "_Facts":
        return _Facts(*map(file_facts, self._files))

    def enter(self, entry: Path) -> None:
        """Write down again, durably, what leads to the run.

        Raises:
            OSError: it cannot be written.
        """
        record = SessionRunV1(
            run=self._run, common_dir=str(self._places.common), root=str(self._root)
        )
        files.make_private_dir(entry.parent)
        files.replace_file(entry, encode_record(record), fault="session.run")

    def forget_if_void(self, entry: Path) -> bool:
        """Remove what leads to the run if it is gone for good, or never came to be.

        A repository that is not there may come back, and a run whose lock is held is being made:
        only who has the lock knows that nobody makes it.

        Args:
            entry: what leads to it.

        Returns:
            Whether it was removed.

        Raises:
            ExternalError: the lock cannot be taken.
            OSError: the machine failed.
        """
        if not self._places.common.is_dir():
            return False
        lock = self._places.run_lock(self._run)
        with locks.claimed_if_free(lock, holder=f"process {os.getpid()}, for a look") as is_free:
            is_void = is_free and not self.folder.run_file.exists()
            if is_void:
                entry.unlink(missing_ok=True)
        return is_void

    def _read(self, facts: "_Facts") -> Owed:
        told = self._read_told()
        if facts.distrust is None and facts.log is not None and facts.log[1] == self._told_bytes:
            return self._owed(newest=max(told), is_settled=True)
        try:
            if not self._is_ours(facts):
                return self._owed(is_settled=True)
            self._read_log()
        except (CorruptionError, OSError) as error:
            self._forget()
            says = None if DAMAGE in told else what_is_wrong(error)
            return self._owed(is_settled=True, damage=says)
        owing = tuple(each for each in self._settlements if each.number not in told)
        newest = len(self._settlements)
        return self._owed(settlements=owing, newest=newest, is_settled=self._is_settled)

    def _is_ours(self, facts: "_Facts") -> bool:
        """Return what the run's record says, which is read once as long as it stays the same.

        Raises:
            CorruptionError: it is damaged, or cannot be believed.
        """
        if facts.distrust is not None or facts.record is None or facts.record != self._ours:
            self._ours = None
            if read_record(self.folder).session != self._key:
                return False
            self._ours = facts.record
        return True

    def _owed(
        self,
        *,
        settlements: tuple[Settlement, ...] = (),
        newest: int = 0,
        is_settled: bool,
        damage: str | None = None,
    ) -> Owed:
        return Owed(self._run, self.folder, self._root, settlements, newest, is_settled, damage)

    def _read_told(self) -> set[int]:
        if self._told is None:
            folder = self.folder.deliveries
            names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
            self._told = {int(name) for name in names if _NUMBER.fullmatch(name)}
            if self._told - {DAMAGE}:
                self._told_bytes = _told_bytes(folder / str(max(self._told)))
        return self._told

    def _read_log(self) -> None:
        new = self._log.read()
        if new.is_afresh:
            self._settlements, self._is_settled = [], False
        for _, at_ms, event in new.events:
            match event:
                case RunSettled(status=status, reason=reason):
                    number = len(self._settlements) + 1
                    self._settlements.append(Settlement(number, at_ms, status, reason))
                    self._is_settled = True
                case RunResumed():
                    self._is_settled = False
                case _:
                    pass

    def confirm(self, number: int) -> None:
        """Make durable that the session was told of a settlement; again is no harm.

        Raises:
            UnknownDeliveryError: the session was never owed it.
            OSError: it cannot be written.
        """
        told = self._read_told()
        if number in told:
            return
        log_bytes = None
        owed = self._read(self._facts())
        if number == DAMAGE and owed.damage is None:
            raise UnknownDeliveryError(f"{self._run}/{number}")
        if number != DAMAGE:
            if number not in {each.number for each in owed.settlements}:
                raise UnknownDeliveryError(f"{self._run}/{number}")
            if owed.is_settled and len(owed.settlements) == 1:
                log_bytes = self._log.size
        record = DeliveredV1(run=self._run, settlement=number, log_bytes=log_bytes)
        files.make_private_dir(self.folder.deliveries)
        path = self.folder.deliveries / str(number)
        files.replace_file(path, encode_record(record), fault="delivery.confirmed")
        told.add(number)
        self._told_bytes, self._quiet = log_bytes, None


@dataclass(frozen=True, slots=True)
class _Facts:
    """What is another as soon as somebody wrote to what is read of a run."""

    record: FileFacts | None
    log: FileFacts | None
    distrust: FileFacts | None


def what_is_wrong(error: CorruptionError | OSError) -> str:
    """Return what to tell of records that cannot be read."""
    if isinstance(error, OSError):
        return f"{error.filename} cannot be read: {reason_of(error)}"
    return str(error)


def _told_bytes(path: Path) -> int | None:
    """Return what a confirmation says of the log; one that is damaged says nothing."""
    try:
        return decode_delivered(files.read_regular(path, RECORD_LIMIT_BYTES), str(path)).log_bytes
    except CorruptionError:
        return None
