"""The files of one mailbox; what it does blocks, and whoever changes anything has the lock.

The state is written before all others and removed after them: without it there is no mailbox.
"""

import errno
import os
import shutil
import stat
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from agents.herdsman.identity import RequestId
from agents.herdsman.mailbox_names import (
    ASK_NAME,
    STATE_NAME,
    folder_name,
    is_request,
    is_result,
    request_name,
    request_of,
    result_name,
)
from agents.herdsman.premises import Premises
from agents.herdsman.record import (
    Ask,
    Contents,
    NothingPending,
    OnePending,
    Pending,
    Request,
    Result,
    State,
    UnclearPending,
)
from agents.herdsman.record_form import ASK, REQUEST, RESULT, STATE, Form, UnreadableRecordError
from engine.core.errors import ConflictError, CorruptionError, reason_of
from engine.system import faults, files
from engine.system.holder import read_live_holder

T = TypeVar("T")

# How often a mailbox is looked at that changes meanwhile.
_LOOKS: Final = 4
# More than a first state has; on a disk that is full not even this can be written.
_PROBE_BYTES: Final = 16 << 10
_PROBE_NAME: Final = "probe"


class MailboxGoneError(ConflictError):
    """There is no mailbox; one that was removed is not made again by those who meant that one."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"there is no mailbox {path}")


@dataclass(frozen=True, slots=True)
class MailboxFolder:
    """The folder of a mailbox, which need not be there.

    Attributes:
        start_lock: held while an agent is started there.
    """

    path: Path
    start_lock: Path

    @classmethod
    def named(cls, premises: Premises, name: str) -> "MailboxFolder":
        """Return the folder of a name; see `folder_name`."""
        return cls(premises.mailboxes / name, premises.locks / f"start-{name}.lock")

    @property
    def lock_name(self) -> str:
        """The name of the file that is locked by whoever reads it to decide, or writes."""
        return f"mailbox-{self.path.name}.lock"

    def read(self) -> Contents | None:
        """Return what is in it, of one moment; None where there is no mailbox.

        Raises:
            UnreadableRecordError: the state cannot be told.
        """
        found, before = None, self._stamp()
        for _ in range(_LOOKS):
            found = self._look()
            after = self._stamp()
            if after == before:
                break
            before = after
        return found

    def read_state(self) -> State | None:
        """Return the state; None where there is no mailbox.

        Raises:
            UnreadableRecordError: it cannot be told.
        """
        state = self._record(STATE_NAME, STATE)
        if state is None or folder_name(state.of.workspace, state.of.label) == self.path.name:
            return state
        raise UnreadableRecordError("the state is another mailbox's")

    def read_request(self, request: RequestId) -> Request | None:
        """Return a request; None where it is not there.

        Raises:
            UnreadableRecordError: it is there and cannot be read.
        """
        found = self._record(request_name(request), REQUEST)
        _check_name(found is None or found.request == request, REQUEST)
        return found

    def read_result(self, request: RequestId) -> Result | None:
        """Return the result of a request; see `read_request`."""
        found = self._record(result_name(request), RESULT)
        _check_name(found is None or found.request == request, RESULT)
        return found

    def read_ask(self) -> Ask | None:
        """Return the question; see `read_request`."""
        return self._record(ASK_NAME, ASK)

    def has_state(self) -> bool:
        """Return whether there is a state, readable or not.

        Raises:
            OSError: that cannot be told.
        """
        return self._is_folder() and _is_there(self.path / STATE_NAME)

    def has_requests(self) -> bool:
        """Return whether there is a request, answered or not.

        Raises:
            OSError: that cannot be told.
        """
        return any(map(is_request, self.names()))

    def requests(self) -> list[RequestId]:
        """Return which requests are there, answered or not, readable or not.

        Raises:
            OSError: that cannot be told.
        """
        found = map(request_of, sorted(filter(is_request, self.names())))
        return [one for one in found if one is not None]

    def is_starting(self) -> bool:
        """Return whether a living process starts an agent here.

        Raises:
            OSError: that cannot be told.
        """
        return read_live_holder(self.start_lock) is not None

    def write(
        self, name: str, data: bytes, *, fault: str, flush: bool = True, creates: bool = False
    ) -> None:
        """Replace a record.

        Args:
            name: of its file.
            data: what it holds then.
            fault: see `engine.system.files.replace_file`.
            flush: it is durable on return.
            creates: the mailbox is made if it is not there.

        Raises:
            MailboxGoneError: there is no mailbox, and none was to be made.
            PinataError, OSError: it cannot be written, or is written and perhaps not durable.
        """
        if not (creates or self.has_state()):
            raise MailboxGoneError(self.path)
        files.make_private_dir(self.path)
        files.replace_file(self.path / name, data, fault=fault, durable=flush)

    def remove(self, name: str) -> None:
        """Remove a record, if it is there, durably.

        Raises:
            OSError: it may still be there.
        """
        if self._is_folder() and _is_there(self.path / name):
            _delete(self.path / name)
            faults.point("herd.record.removed")
            files.sync_dir(self.path)

    def remove_leftovers(self) -> None:
        """Remove whatever is there but the state, durably.

        Raises:
            OSError: some of it may still be there.
        """
        names = [name for name in self.names() if name != STATE_NAME]
        for name in names:
            _delete(self.path / name)
            faults.point("herd.mailbox.emptying")
        if names:
            files.sync_dir(self.path)

    def try_out(self) -> None:
        """Write something where no mailbox is, as its first state will be, and leave nothing of it.

        Raises:
            PinataError, OSError: that does not go, and nor would the state.
        """
        files.make_private_dir(self.path)
        probe = self.path / _PROBE_NAME
        try:
            faults.point("herd.mailbox.probing")
            probe.write_bytes(bytes(_PROBE_BYTES))
        finally:
            probe.unlink(missing_ok=True)
            self.path.rmdir()

    def remove_all(self) -> None:
        """Remove the mailbox: the state after all else, and the folder last.

        Raises:
            OSError: some of it may still be there, and the state as long as anything else is.
        """
        self.remove_leftovers()
        faults.point("herd.mailbox.emptied")
        self.remove(STATE_NAME)
        faults.point("herd.mailbox.stateless")
        if self._is_folder():
            self.path.rmdir()
            files.sync_dir(self.path.parent)
        faults.point("herd.mailbox.removed")

    def _look(self) -> Contents | None:
        state = self.read_state()
        try:
            names = self.names()
            if state is None:
                if any(map(is_request, names)):
                    raise UnreadableRecordError("there are requests without a state")
                return None
            is_starting = self.is_starting()
        except OSError as error:
            raise UnreadableRecordError(f"it cannot be read: {reason_of(error)}") from error
        ask, ask_fault = self._read_ask_or_fault(names)
        return Contents(
            state, ask, ask_fault, self._pending(names, state), _results(names), is_starting
        )

    def _read_ask_or_fault(self, names: Collection[str]) -> tuple[Ask | None, str | None]:
        if ASK_NAME not in names:
            return None, None
        try:
            return self.read_ask(), None
        except UnreadableRecordError as error:
            return None, str(error)

    def _pending(self, names: Iterable[str], state: State) -> Pending:
        acknowledged = _acknowledged(state)
        waiting = [name for name in names if is_request(name) and name not in acknowledged]
        if not waiting:
            return NothingPending()
        if len(waiting) > 1:
            return UnclearPending(f"{len(waiting)} requests wait for an answer")
        request = request_of(waiting[0])
        if request is None:
            return UnclearPending("a request has a name that is no id")
        try:
            found = self.read_request(request)
        except UnreadableRecordError as error:
            return UnclearPending(str(error))
        # One that went meanwhile was answered.
        return NothingPending() if found is None else OnePending(found)

    def _record(self, name: str, form: Form[T]) -> T | None:
        path = self.path / name
        try:
            if not self._is_folder():
                return None
            if os.lstat(path).st_size > form.limit_bytes:
                raise _too_long(form)
            data = files.read_regular(path, form.limit_bytes)
        except FileNotFoundError:
            return None
        except OSError as error:
            reason = reason_of(error)
            raise UnreadableRecordError(f"the {form.noun} cannot be read: {reason}") from error
        except UnreadableRecordError:
            raise
        except CorruptionError as error:
            raise UnreadableRecordError(f"the {form.noun} is no regular file") from error
        return form.decode(data)

    def names(self) -> list[str]:
        """Return the names of all files there.

        Raises:
            OSError: something else than a folder stands there, or that cannot be told.
        """
        if not self._is_folder():
            return []
        return os.listdir(self.path)

    def _is_folder(self) -> bool:
        """Return whether it is there; a link is not followed, since it leads to somebody else's.

        Raises:
            OSError: something else stands there, or that cannot be told.
        """
        try:
            mode = os.lstat(self.path).st_mode
        except FileNotFoundError:
            return False
        if not stat.S_ISDIR(mode):
            raise NotADirectoryError(errno.ENOTDIR, "it is no folder", str(self.path))
        return True

    def _stamp(self) -> tuple[int, int, int] | None:
        """Return what is different after the state was replaced; None without one."""
        try:
            found = os.lstat(self.path / STATE_NAME)
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size


def _acknowledged(state: State) -> frozenset[str]:
    """Return the names of the requests that the agent has answered; their files say no more."""
    said, injection = state.acknowledgement, state.injection
    answered = (
        state.active,
        state.completed,
        None if said is None else said.request,
        None if injection is None else injection.request,
    )
    return frozenset(request_name(one) for one in answered if one is not None)


def _results(names: Iterable[str]) -> frozenset[RequestId]:
    found = map(request_of, filter(is_result, names))
    return frozenset(one for one in found if one is not None)


def _check_name(is_right: bool, form: Form[Any]) -> None:  # noqa: FBT001 - what is checked
    if not is_right:
        raise UnreadableRecordError(f"the {form.noun} has another id than its file")


def _too_long(form: Form[Any]) -> UnreadableRecordError:
    return UnreadableRecordError(f"the {form.noun} is longer than {form.limit_bytes:,} bytes")


def _is_there(path: Path) -> bool:
    try:
        os.lstat(path)
    except FileNotFoundError:
        return False
    return True


def _delete(path: Path) -> None:
    """Remove whatever stands at `path`, and all in it; links are not followed."""
    try:
        path.unlink(missing_ok=True)
    except IsADirectoryError:
        shutil.rmtree(path)
