"""Rules about repository paths that can be told from the path alone."""

import re
import unicodedata

MAX_PATH_CHARS = 4_096  # no system takes a longer one
_DRIVE = re.compile(r"[A-Za-z]:")
_SECRET_NAMES = frozenset({b".env", b"auth.json", b".npmrc", b".netrc"})
_TEMPLATES = frozenset({b".env.example", b".env.sample", b".env.template", b".env.dist"})


def components(path: bytes) -> tuple[bytes, ...]:
    """Return the segments of a path as Git stores it, the outermost first."""
    return tuple(path.split(b"/"))


def path_fault(text: str) -> str | None:
    """Return what keeps `text` from being a path inside a repository, or None.

    The answer continues a sentence that starts with the path: `is absolute`. A path is relative and
    literal, has `/` between its segments and no slash at its end.
    """
    if not text:
        return "is empty"
    if len(text) > MAX_PATH_CHARS:
        return f"has more than {MAX_PATH_CHARS:,} characters"
    if "\0" in text:
        return "holds a NUL character"
    if "\\" in text:
        return "holds a backslash"
    if text.startswith("/"):
        return "is absolute"
    if _DRIVE.match(text):
        return "starts with a drive letter"
    return _segment_fault(text.split("/"))


def _segment_fault(segments: list[str]) -> str | None:
    if "" in segments:
        return "holds an empty segment"
    if "." in segments:
        return 'holds the segment "."'
    if ".." in segments:
        return 'holds the segment ".."'
    if any(_is_git(segment) for segment in segments):
        return "leads into a .git folder"
    return None


def _is_git(segment: str) -> bool:
    return segment.isascii() and segment.lower() == ".git"


def has_git_segment(path: bytes) -> bool:
    """Whether a segment of `path` is `.git`, in any letter case."""
    return any(segment.lower() == b".git" for segment in components(path))


def is_secret_name(path: bytes) -> bool:
    """Whether a segment of `path` is a name that usually holds secrets, in any letter case.

    Templates such as `.env.example` hold none.
    """
    return any(_is_secret(segment.lower()) for segment in components(path))


def _is_secret(segment: bytes) -> bool:
    if segment in _TEMPLATES:
        return False
    return segment in _SECRET_NAMES or segment.startswith(b".env.")


def fold_path(path: bytes, *, fold_case: bool) -> bytes:
    """Return the form of `path` in which equal means the same file.

    Args:
        path: as Git stores it; need not be UTF-8.
        fold_case: whether the volume takes names that differ in letter case for one name. Such
            volumes also take composed and decomposed letters for one.
    """
    if not fold_case:
        return path
    text = unicodedata.normalize("NFD", path.decode("utf-8", "surrogateescape")).casefold()
    return unicodedata.normalize("NFC", text).encode("utf-8", "surrogateescape")
