"""Answers that are longer than a model can take: it reads the beginning, and where the whole is.

The whole is in a file for this user alone. The latest such files are kept, and the older ones go.
"""

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import trio

from agents.herdsman.excerpt import first_bytes
from agents.herdsman.premises import Premises
from engine.core.errors import ConflictError, reason_of
from engine.system.files import make_private_dir, replace_briefly

MODEL_LIMIT_BYTES: Final = 50 << 10
_KEPT_FILES: Final = 32
# What the note about the rest takes at most, besides the path in it.
_NOTE_BYTES: Final = 160
_log = logging.getLogger(f"pinata.{__name__}")


@dataclass(frozen=True, slots=True)
class Shown:
    """An answer as a model reads it.

    Attributes:
        file: holds the whole where `text` is not all of it, and could be written.
    """

    text: str
    was_cut: bool = False
    file: Path | None = None

    @property
    def details(self) -> Mapping[str, Any]:
        """What programs are told about it; nothing where it is whole."""
        if not self.was_cut:
            return {}
        told = {} if self.file is None else {"full_output_path": str(self.file)}
        return {"truncated": True, **told}


async def show_to_model(premises: Premises, text: str) -> Shown:
    """Return an answer cut to what a model can take; a cut one says so itself, at its end."""
    size_bytes = len(text.encode("utf-8", "replace"))
    if size_bytes <= MODEL_LIMIT_BYTES:
        return Shown(text)
    file = await trio.to_thread.run_sync(_kept, premises, text)
    where = "it could not be kept" if file is None else f"all of it is in {file}"
    head = first_bytes(text, MODEL_LIMIT_BYTES - _NOTE_BYTES - len(where.encode()))
    left_out = size_bytes - len(head.encode())
    return Shown(f"{head}\n[... {left_out} bytes left out; {where}]", was_cut=True, file=file)


def _kept(premises: Premises, text: str) -> Path | None:
    """Write an answer into a file and return it; None where that cannot be done."""
    folder = premises.overflow
    file = folder / f"{premises.new_id()}.txt"
    try:
        make_private_dir(folder)
        replace_briefly(file, text.encode("utf-8", "replace"))
    except (OSError, ConflictError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else str(error)
        _log.warning("%s: an answer cannot be kept: %s", folder, reason)
        return None
    # Two processes may tidy up at once.
    with suppress(OSError):
        _remove_older(folder)
    return file


def _remove_older(folder: Path) -> None:
    files = sorted(folder.glob("*.txt"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for path in files[_KEPT_FILES:]:
        path.unlink(missing_ok=True)
