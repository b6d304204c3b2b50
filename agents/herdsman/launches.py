"""What a host wrote down before it started an agent, so that nothing of it outlives the host.

A mark is durable before anything carries it. Whoever finds the mark of a dead host ends all that
still carries it; an agent whose program is gone is lost then, and never half there.
"""

import json
import logging
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
from engine.core.errors import ExternalError, PinataError, reason_of
from engine.system import files, strays
from engine.system.identity import ProcessIdentity, is_alive as runs
from engine.system.ledger import keep_ledger, read_ledger

_MARK_BYTES: Final = 16
_LIMIT_BYTES: Final = 4 << 10
_RECORD: Final = "launch.json"
_LEDGER: Final = "processes.jsonl"
_log = logging.getLogger(f"pinata.{__name__}")


@dataclass(frozen=True, slots=True, config={"extra": "forbid", "strict": True})
class _LaunchV1:
    mark: str
    host: ProcessStamp
    v: int = 1


_FORM: TypeAdapter[_LaunchV1] = TypeAdapter(_LaunchV1)


def stamp(identity: ProcessIdentity) -> ProcessStamp:
    """Return a process as records name it."""
    return ProcessStamp(identity.pid, identity.start_ticks, identity.boot_id)


def is_alive(process: ProcessStamp) -> bool:
    """Return whether a process is still the one that it was; blocks for a moment."""
    return runs(ProcessIdentity(process.pid, process.start_ticks, process.boot_id))


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
    record = json.dumps({"v": 1, "mark": mark, "host": _as_json(host)}).encode()

    def begin() -> None:
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
    for folder in await trio.to_thread.run_sync(_abandoned, premises):
        try:
            record = await trio.to_thread.run_sync(_read, folder)
            if record is not None:
                await strays.end_marked(f"{record.mark}/")
            ledger = folder / _LEDGER
            await strays.end_recorded(await trio.to_thread.run_sync(read_ledger, ledger))
            await trio.to_thread.run_sync(_forget, folder)
        except PinataError as error:
            _log.warning("what %s started may be left: %s", folder.name, error)


def _folder(premises: Premises, generation: GenerationId) -> Path:
    return premises.launches / generation


def _as_json(process: ProcessStamp) -> dict[str, object]:
    return {
        "pid": process.pid,
        "start_ticks": process.start_ticks,
        "boot_id": process.boot_id,
    }


def _abandoned(premises: Premises) -> list[Path]:
    """Return the launches of dead hosts, and those that nobody can tell of any more; blocks."""
    try:
        folders = [each for each in premises.launches.iterdir() if is_uuid(each.name)]
    except FileNotFoundError:
        return []
    found = []
    for folder in folders:
        record = _read(folder)
        # Without a record nothing was started yet: its host may be about to write it.
        if record is not None and not is_alive(record.host):
            found.append(folder)
    return found


def _read(folder: Path) -> _LaunchV1 | None:
    try:
        return _FORM.validate_json(files.read_regular(folder / _RECORD, _LIMIT_BYTES))
    except FileNotFoundError:
        return None
    except (ValidationError, PinataError, OSError) as error:
        _log.warning("%s is damaged: %s", folder / _RECORD, error)
        return None


def _forget(folder: Path) -> None:
    """Remove a launch's folder, the record last: it leads to the rest."""
    for name in (_LEDGER, _RECORD):
        with suppress(OSError):
            (folder / name).unlink()
    with suppress(OSError):
        folder.rmdir()
