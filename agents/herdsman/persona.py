"""The text of a definition as an agent gets it: lines that only name a file are replaced by it.

A line that begins with `@` names a file: absolute, below a home, or from where the definition's
file lies. What a file holds is put in as it is, and not looked through for more of them.
"""

import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from agents.filetools.secrets import HOLDS_KEYS, Identities, identify_secrets
from agents.herd_definition import HerdDefinition, Passage
from agents.herdsman.errors import invalid
from engine.core.errors import UsageError
from engine.core.quote import quote_value
from engine.system.files import read_input

_FILE_LIMIT_BYTES = 1 << 20
# All files of a definition together: more is no text that a model could read.
_FILES_LIMIT_BYTES = 4 << 20
_MARK = "@"


@dataclass(slots=True)
class _Files:
    """The files of one definition.

    Attributes:
        seen: real paths of those that the agent has by now.
        kept_back: those that no agent gets.
        room_bytes: what more of them may hold.
    """

    seen: set[str]
    kept_back: Identities
    room_bytes: int = _FILES_LIMIT_BYTES

    def content(self, path: Path) -> str:
        """Return what a file holds; nothing of one that the agent has.

        Raises:
            UsageError: it cannot be put in.
        """
        real = os.path.realpath(path)
        if real in self.seen:
            return ""
        self.seen.add(real)
        if identify_secrets((path,)) & self.kept_back:
            raise UsageError(f"it {HOLDS_KEYS}")
        data = read_input(path, _FILE_LIMIT_BYTES)
        self.room_bytes -= len(data)
        if self.room_bytes < 0:
            limit = f"{_FILES_LIMIT_BYTES:,} bytes"
            raise UsageError(f"with it the files of this definition are longer than {limit}")
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise UsageError(f"{path} is not UTF-8 text") from error
        if "\0" in text:
            raise UsageError(f"{path} holds a NUL character")
        return text.strip("\n")


def expand_persona(
    definition: HerdDefinition,
    home: Path | None,
    *,
    without: Collection[str] = (),
    secrets: Iterable[Path] = (),
) -> str:
    """Return a definition's text with the files in it, each once, ending in one newline; blocks.

    Args:
        definition: of the agent.
        home: what `~` stands for; None where nobody knows.
        without: real paths of files that the agent gets anyway.
        secrets: files that no agent gets.

    Raises:
        HerdError: INVALID_REQUEST: a file cannot be read, or is no UTF-8 text, or they are too long
            together.
    """
    files = _Files(set(without), identify_secrets(secrets))
    texts = ("\n".join(_lines(definition, passage, home, files)) for passage in definition.passages)
    return "\n\n".join(text for text in texts if text) + "\n"


def _lines(
    definition: HerdDefinition, passage: Passage, home: Path | None, files: _Files
) -> Iterator[str]:
    for line in passage.text.split("\n"):
        named = _named(line)
        if named is None:
            yield line
            continue
        try:
            content = files.content(_place(named, passage.folder, home))
        except UsageError as error:
            raise invalid(
                f"the text of the definition {definition.name} names {quote_value(named)}: {error}",
                next_action=f"correct the line in {definition.file}, or put a blank before its @ "
                "if it names no file",
            ) from error
        if content:
            yield content


def _named(line: str) -> str | None:
    """Return the file that a line names; None when it is an ordinary one."""
    rest = line.removeprefix(_MARK).rstrip()
    return rest if line.startswith(_MARK) and rest and not rest[0].isspace() else None


def _place(named: str, folder: str, home: Path | None) -> Path:
    if named != "~" and not named.startswith("~/"):
        return Path(folder, named)
    if home is None:
        raise UsageError("there is no home directory that ~ could stand for")
    return home / named[2:]
