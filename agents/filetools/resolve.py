"""What file a path in a tool call means; the guard and the file tools ask here, so they agree.

A relative path starts at the agent's working directory. `..` is worked out on the text, before any
symbolic link is followed, so `link/../x` is `x`.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from agents.filetools.tool import ToolFaultError
from engine.core.changes import quote_path, unquote_path
from engine.core.quote import quote_value

# What models write for a space: no-break, all widths, narrow, mathematical, ideographic.
_SPACES = dict.fromkeys([0x00A0, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000], " ")


@dataclass(frozen=True, slots=True)
class Place:
    """A path that lies inside the agent's working directory.

    Attributes:
        root: the working directory's real path.
        parts: names from there down to the path, none of them empty, `.` or `..`; empty for the
            directory itself.
    """

    root: Path
    parts: tuple[bytes, ...]

    @property
    def relative(self) -> bytes:
        """The path as Git spells it."""
        return b"/".join(self.parts)


def resolve(given: str, root: Path, home: str | None) -> Path:
    """Return the absolute, normalised path that `given` means.

    Args:
        given: what the model wrote. A leading `@`, by which prompts mention files, is dropped; `~`
            is `home`; Unicode spaces are taken as plain ones.
        root: where relative paths start; absolute.
        home: the home directory, if it is known.

    Raises:
        ToolFaultError: no file can have this path.
    """
    text = given.removeprefix("@").translate(_SPACES)
    if not text:
        raise ToolFaultError("the path is empty; name a file or directory")
    if "\0" in text:
        raise ToolFaultError("the path holds a NUL character, which no path can")
    if text == "~" or text.startswith("~/"):
        if home is None:
            raise ToolFaultError(
                f"no home directory is known here; write {quote_value(text)} without '~'"
            )
        text = home + text[1:]
    # POSIX lets two slashes at the start mean something of their own; on Linux they never do.
    return Path("/" + os.path.normpath(root / text).lstrip("/"))


def locate(given: str, root: Path, home: str | None) -> Place | None:
    """Return where below `root` the path `given` lies, or None when it lies outside.

    The directory is recognised by identity and not by spelling: a path that reaches it by another
    name, such as a symbolic link above it, is inside too. Links below it are not followed.

    Raises:
        ToolFaultError: no file can have this path.
        OSError: `root` cannot be looked at.
    """
    path = resolve(given, root, home)
    real_root = Path(os.path.realpath(root))
    wanted = real_root.stat()
    for folder in [*reversed(path.parents), path]:
        try:
            found = folder.stat()
        except OSError:
            return None
        if os.path.samestat(found, wanted):
            names = path.relative_to(folder).parts
            return Place(real_root, tuple(os.fsencode(name) for name in names))
    return None


def unquote(given: str) -> str:
    """Return the path that an answer showed as `given`, for the tools that only read.

    Answers show names that are not UTF-8 or hold control characters as Git quotes them.
    """
    if not re.fullmatch('".*"', given):
        return given
    try:
        return os.fsdecode(unquote_path(given))
    except (IndexError, ValueError):
        return given


def display(path: Path, root: Path) -> str:
    """Return `path` as the model should write it: from `root` down if inside, else absolute."""
    inside = path.relative_to(root) if path.is_relative_to(root) else path
    return quote_path(os.fsencode(inside))


def locate_target(given: str, root: Path, home: str | None) -> Place:
    """Return where below `root` the file lies that `given` asks to change.

    Raises:
        ToolFaultError: it lies outside, or is `root` itself.
        OSError: `root` cannot be looked at.
    """
    place = locate(given, root, home)
    if place is None:
        raise ToolFaultError(
            f"{quote_value(given)} lies outside of the working directory; write inside of it"
        )
    if not place.parts:
        raise ToolFaultError(f"{quote_value(given)} is the working directory itself; name a file")
    return place
