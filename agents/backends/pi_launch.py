"""What the command lines of all agents that are a Pi have in common."""

import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Final

import trio

from engine.core.errors import ExternalError

# Nothing of the user's is loaded but logins, models and settings; what an agent is, its definition
# says.
HEADLESS: Final = (
    "--mode",
    "rpc",
    "--offline",
    "--no-prompt-templates",
    "--no-themes",
    "--no-approve",
)
PROMPT_OPTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {"append": "--append-system-prompt", "replace": "--system-prompt"}
)
_PROMPT_FILE = "prompt.md"
_MOST_SAID = 400


def last_words(stderr: bytes) -> str:
    """Return the end of what a child wrote to stderr, from the beginning of a line on."""
    text = stderr.decode(errors="replace").strip()
    end = text[-_MOST_SAID:]
    if len(end) < len(text):
        end = end.partition("\n")[2] or end
    return end


@asynccontextmanager
async def kept_private(text: str, env: Mapping[str, str]) -> AsyncIterator[Path]:
    """Keep a text in a file that only this user reads, until the block is left.

    A command line may be too short for it, and everybody can read that.

    Raises:
        ExternalError: the file cannot be written.
    """
    folder = await trio.to_thread.run_sync(_save_prompt, text, env.get("TMPDIR") or None)
    try:
        yield folder / _PROMPT_FILE
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(lambda: shutil.rmtree(folder, ignore_errors=True))


def _save_prompt(text: str, temporary: str | None) -> Path:
    try:
        folder = Path(tempfile.mkdtemp(prefix="pinata-pi-", dir=temporary or "/tmp"))  # noqa: S108 - the name below it is unguessable
        (folder / _PROMPT_FILE).write_text(text, "utf-8")
    except OSError as error:
        raise ExternalError(f"cannot keep the system prompt for Pi: {error}") from error
    return folder
