"""Answers that are longer than a model can take: it reads the beginning, and where the whole is.

The whole is in a file for this user alone. The latest such files are kept, and the older ones go.
"""

import logging
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import trio

from agents.herdsman.excerpt import first_bytes
from agents.herdsman.premises import Premises
from engine.core.errors import ConflictError, reason_of
from engine.system.files import make_private_dir, replace_briefly

MODEL_LIMIT_BYTES: Final = 50 << 10
CUT_KEY: Final = "truncated"
FILE_KEY: Final = "full_output_path"
_KEPT_FILES: Final = 32
# What the note about the rest takes at most, besides the path in it.
_NOTE_BYTES: Final = 160
_log = logging.getLogger(f"pinata.{__name__}")


async def keep_overflow(premises: Premises, text: str) -> dict[str, Any]:
    """Return what an answer says of itself beside its text; nothing where a model can take it.

    Args:
        premises: where the whole is kept.
        text: of the answer, as a model would read it.

    Returns:
        `truncated`, and the file with the whole under `full_output_path` where it could be kept.
    """
    if _size_bytes(text) <= MODEL_LIMIT_BYTES:
        return {}
    file = await trio.to_thread.run_sync(_kept, premises, text)
    where = {} if file is None else {FILE_KEY: str(file)}
    return {CUT_KEY: True, **where}


def cut_for_model(text: str, told: Mapping[str, Any]) -> str:
    """Return as much of an answer as a model can take; a cut one says so at its end.

    Args:
        text: of the answer.
        told: what the answer says of itself; see `keep_overflow`.
    """
    if not told.get(CUT_KEY):
        return text
    file = told.get(FILE_KEY)
    where = "it could not be kept" if file is None else f"all of it is in {file}"
    head = first_bytes(text, MODEL_LIMIT_BYTES - _NOTE_BYTES - len(where.encode()))
    left_out = _size_bytes(text) - len(head.encode())
    return f"{head}\n[... {left_out} bytes left out; {where}]"


def _size_bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _kept(premises: Premises, text: str) -> Path | None:
    """Write an answer into a file and return it; None where that cannot be done."""
    folder = premises.overflow
    file = folder / f"{premises.new_id()}.txt"
    try:
        make_private_dir(folder)
        replace_briefly(file, text.encode("utf-8", "replace"))
    except (OSError, ConflictError) as error:
        _log.warning("%s: an answer cannot be kept: %s", folder, reason_of(error))
        return None
    # Two processes may tidy up at once.
    with suppress(OSError):
        _remove_older(folder)
    return file


def _remove_older(folder: Path) -> None:
    files = sorted(folder.glob("*.txt"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for path in files[_KEPT_FILES:]:
        path.unlink(missing_ok=True)
