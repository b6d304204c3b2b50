"""What a session is owed of all its runs.

A look costs little where nothing is new, however many runs the session has. Every function blocks,
and one process at a time may look: the one that holds the session's lock.
"""

import logging
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from engine.core.errors import CorruptionError, PinataError
from engine.core.ids import RunId
from engine.records.session import RECORD_LIMIT_BYTES, decode_session_run
from engine.store import is_run_id
from engine.system import files
from pinata.work.owed import DAMAGE, Account, Owed, UnknownDeliveryError, what_is_wrong
from pinata.work.places import Places
from pinata.work.session import Session

_ENTRY = ".json"
_SET_ASIDE = ".unreadable"
_log = logging.getLogger(f"pinata.{__name__}")


class Accounts:
    """What is owed of each run of one session."""

    def __init__(self, session: Session) -> None:
        """Begin without having read anything."""
        self._session = session
        self._known: dict[RunId, Account] = {}

    def look(self, leave_out: Collection[RunId] = ()) -> Iterator[Owed]:
        """Yield how each run stands, in no order.

        What leads to a run that never came to be, or that somebody removed, is removed.

        Args:
            leave_out: runs that are not looked at.
        """
        for run in self._runs():
            if run in leave_out:
                with suppress(FileNotFoundError, CorruptionError):
                    self._account(run)  # so that it is known whatever becomes of its entry
            elif (owed := self._look(run)) is not None:
                yield owed

    def confirm(self, run: RunId, number: int) -> None:
        """Make durable that the session was told of a settlement; again is no harm.

        Raises:
            UnknownDeliveryError: the session was never owed it.
            OSError: it cannot be written.
        """
        if not is_run_id(run):
            raise UnknownDeliveryError(f"{run}/{number}")
        try:
            account = self._account(run)
        except FileNotFoundError:
            return  # somebody removed the run, and with it what was owed
        except CorruptionError as error:
            if number != DAMAGE:
                raise UnknownDeliveryError(f"{run}/{number}") from error
            entry = self._session.run_file(run)
            entry.rename(entry.with_suffix(_SET_ASIDE))
            files.sync_dir(entry.parent)
            return
        if account.folder.path.is_dir():
            account.confirm(number)

    def _runs(self) -> list[RunId]:
        try:
            names = [path.name for path in self._session.runs.iterdir()]
        except FileNotFoundError:
            names = []
        named = (RunId(name.removesuffix(_ENTRY)) for name in names if name.endswith(_ENTRY))
        runs = [run for run in named if is_run_id(run)]
        lost = self._known.keys() - set(runs)
        return runs + [run for run in sorted(lost) if self._is_remembered_again(run)]

    def _is_remembered_again(self, run: RunId) -> bool:
        """Write the entry of a run again that somebody removed, unless the run went with it."""
        account = self._known[run]
        if not account.folder.run_file.exists():
            del self._known[run]
            return False
        try:
            account.enter(self._session.run_file(run))
        except OSError as error:
            # What the session is owed is told all the same, as long as this process lives.
            _log.warning("the session's entry of run %s is gone: %s", run, error)
        return True

    def _look(self, run: RunId) -> Owed | None:
        try:
            account = self._account(run)
        except FileNotFoundError:
            return None
        except CorruptionError as error:
            return Owed(run, None, None, damage=str(error))
        try:
            owed = account.look()
        except OSError as error:
            return Owed(run, account.folder, None, damage=what_is_wrong(error))
        if owed is None:
            self._forget_if_void(run, account)
        return owed

    def _forget_if_void(self, run: RunId, account: Account) -> None:
        """Remove what leads to a run that is not there, unless it may come."""
        try:
            if account.forget_if_void(self._session.run_file(run)):
                del self._known[run]
        except (PinataError, OSError) as error:
            # It stays, and is tried again at the next look.
            _log.warning("run %s is not there, and cannot be forgotten: %s", run, error)

    def _account(self, run: RunId) -> Account:
        """Return the account of a run, whose entry is read once.

        Raises:
            FileNotFoundError: the session has no such run.
            CorruptionError: its entry is damaged.
        """
        if run not in self._known:
            path = self._session.run_file(run)
            found = decode_session_run(files.read_regular(path, RECORD_LIMIT_BYTES), str(path))
            if found.run != run:
                raise CorruptionError(f"{path} is the entry of another run, {found.run}")
            common, root = Path(found.common_dir), Path(found.root)
            # Where the user's state lies does not matter for what is in the repository.
            places = Places(common, self._session.folder)
            self._known[run] = Account(self._session.key, run, places, root)
        return self._known[run]
