"""What a host wrote down before it started an agent, so that nothing of it outlives the host.

A mark is durable before anything carries it. Whoever finds the mark of a dead host ends all that
still carries it; an agent whose program is gone is lost then, and never half there.
"""

import json
import logging
import os
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import trio
from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from agents.herdsman.identity import GenerationId, is_uuid
from agents.herdsman.premises import Premises
from agents.herdsman.record import ProcessStamp
from agents.herdsman.record_form import process_faults
from engine.core.errors import ExternalError, PinataError, reason_of
from engine.system import files, strays
from engine.system.identity import ProcessIdentity, is_alive as runs, now_ticks
from engine.system.ledger import keep_ledger, read_ledger

_MARK_BYTES: Final = 16
_MARK: Final = re.compile(r"[0-9a-f]{32}")
_LIMIT_BYTES: Final = 4 << 10
_RECORD: Final = "launch.json"
_LEDGER: Final = "processes.jsonl"
_log = logging.getLogger(f"pinata.{__name__}")


@dataclass(frozen=True, slots=True, config={"extra": "forbid", "strict": True})
class _LaunchV1:
    """What is written down of a launch.

    Attributes:
        began_ticks: when that was, in clock ticks since the boot; 0 where nobody noted it.
    """

    mark: str
    host: ProcessStamp
    began_ticks: int = 0
    v: int = 1


_FORM: TypeAdapter[_LaunchV1] = TypeAdapter(_LaunchV1)


def stamp(identity: ProcessIdentity) -> ProcessStamp:
    """Return a process as records name it."""
    return ProcessStamp(identity.pid, identity.start_ticks, identity.boot_id)


def is_alive(process: ProcessStamp) -> bool:
    """Return whether a process is still the one that it was; blocks for a moment.

    Raises:
        ExternalError: that cannot be told now.
    """
    try:
        return runs(ProcessIdentity(process.pid, process.start_ticks, process.boot_id))
    except OSError as error:
        reason = reason_of(error)
        raise ExternalError(f"cannot tell whether process {process.pid} runs: {reason}") from error


@asynccontextmanager
async def recorded_launch(
    premises: Premises, generation: GenerationId, host: ProcessStamp
) -> AsyncIterator[str]:
    """Have a mark for the processes of a generation inside the block, durable before it begins.

    Raises:
        ExternalError: the disk is full or broken.
        ConflictError: something else stands where it belongs.
    """
    mark = secrets.token_hex(_MARK_BYTES)
    folder = _folder(premises, generation)

    def begin() -> None:
        told = {"v": 1, "mark": mark, "host": _as_json(host), "began_ticks": now_ticks()}
        record = json.dumps(told).encode()
        files.make_private_dir(folder)
        files.replace_file(folder / _RECORD, record, fault="herd.launch")

    try:
        await trio.to_thread.run_sync(begin)
        with keep_ledger(mark, folder / _LEDGER):
            yield mark
    except OSError as error:
        raise ExternalError(f"cannot write down a launch: {reason_of(error)}") from error
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(_forget, folder)


async def end_orphans(premises: Premises) -> None:
    """End all that is left of agents whose hosts are dead; once is enough, more changes nothing.

    What cannot be ended, or read, is logged, and tried again the next time.
    """
    try:
        folders = await trio.to_thread.run_sync(_launches, premises)
    except OSError as error:
        _log.warning("what dead hosts started may be left: %s", reason_of(error))
        return
    for folder in folders:
        try:
            await _end_orphans_of(folder)
        except (PinataError, OSError) as error:
            _log.warning("what %s started may be left: %s", folder.name, error)


def left_launches(premises: Premises) -> dict[str, str]:
    """Return which generations may be there, each with what runs it; blocks.

    Whatever `end_orphans` has ended just before is not among them.

    Raises:
        OSError: it cannot be told.
    """
    found = {}
    for folder in _launches(premises):
        record = _read(folder)
        if record is not None:
            found[folder.name] = f"process {record.host.pid}"
        elif os.path.lexists(folder / _RECORD):
            found[folder.name] = f"a process that {folder / _RECORD} fails to name"
    return found


async def _end_orphans_of(folder: Path) -> None:
    """End what is left of a launch, if its host is dead.

    Raises:
        PinataError, OSError: it cannot be told what there is, or not all could be ended.
    """
    record = await trio.to_thread.run_sync(_read, folder)
    # Without a record nothing was started yet: its host may be about to write it.
    if record is None or await trio.to_thread.run_sync(is_alive, record.host):
        return
    await strays.end_marked(f"{record.mark}/")
    named = await trio.to_thread.run_sync(read_ledger, folder / _LEDGER)
    # What carries the mark is gone now. Any other can be of this launch only if it began later.
    await strays.end_recorded([one for one in named if _is_later(one, record)])
    await trio.to_thread.run_sync(_forget, folder)


def _is_later(process: ProcessIdentity, record: _LaunchV1) -> bool:
    earliest_ticks = max(record.began_ticks, record.host.start_ticks)
    return process.boot_id == record.host.boot_id and process.start_ticks >= earliest_ticks


def _folder(premises: Premises, generation: GenerationId) -> Path:
    return premises.launches / generation


def _as_json(process: ProcessStamp) -> dict[str, object]:
    return {
        "pid": process.pid,
        "start_ticks": process.start_ticks,
        "boot_id": process.boot_id,
    }


def _launches(premises: Premises) -> list[Path]:
    """Return the folders of all launches; blocks."""
    try:
        return [each for each in premises.launches.iterdir() if is_uuid(each.name)]
    except FileNotFoundError:
        return []


def _read(folder: Path) -> _LaunchV1 | None:
    """Return the record of a launch; None where there is none, or a damaged one."""
    path = folder / _RECORD
    try:
        record = _FORM.validate_json(files.read_regular(path, _LIMIT_BYTES))
    except FileNotFoundError:
        return None
    except (ValidationError, PinataError) as error:
        _log.warning("%s is damaged: %s", path, error)
        return None
    faults = list(process_faults(record.host))
    if not _MARK.fullmatch(record.mark):
        faults.append("its mark is not one of 32 hexadecimal digits")
    if faults:
        _log.warning("%s is damaged: %s", path, faults[0])
        return None
    return record


def _forget(folder: Path) -> None:
    """Remove a launch's folder, the record last: it leads to the rest."""
    for name in (_LEDGER, _RECORD):
        with suppress(OSError):
            (folder / name).unlink()
    with suppress(OSError):
        folder.rmdir()
