"""The grep tool: lines that match a regular expression, with the places where they are."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import trio

from agents.filetools.answer import BYTE_LIMIT, LINE_LIMIT, cut_line, keep_first, with_notes
from agents.filetools.arguments import GrepArguments
from agents.filetools.glob import Glob
from agents.filetools.pattern import LinePattern
from agents.filetools.resolve import display
from agents.filetools.scope import Scope, choose_scope
from agents.filetools.secrets import Identities, identify_secrets
from agents.filetools.source import looks_binary, open_regular
from agents.filetools.tool import ToolAnswer, ToolContext, ToolFaultError, build

DEFAULT_LIMIT = 100
LINE_LIMIT_CHARS = 500
FILE_LIMIT_BYTES = 16 << 20
_FILES_NAMED = 3


async def _grep(context: ToolContext, arguments: GrepArguments) -> ToolAnswer:
    pattern = LinePattern(
        arguments.pattern,
        literal=bool(arguments.literal),
        ignore_case=bool(arguments.ignore_case),
    )
    chooser = _Chooser.build(arguments.glob)
    scope = await choose_scope(context, arguments.path or ".")
    limit = min(arguments.limit or DEFAULT_LIMIT, LINE_LIMIT)
    secrets = await trio.to_thread.run_sync(identify_secrets, context.secrets)
    search = _Search(context.root, pattern, arguments.context or 0, limit, secrets)
    return await trio.to_thread.run_sync(_answer, search, scope, chooser)


@dataclass(frozen=True, slots=True)
class _Chooser:
    """Which files the model wants to search; a glob that starts with `!` says which it does not."""

    glob: Glob | None
    wanted: bool

    @classmethod
    def build(cls, text: str | None) -> "_Chooser":
        if not text:
            return cls(None, wanted=True)
        return cls(Glob(text.removeprefix("!")), wanted=not text.startswith("!"))

    def takes(self, file: bytes) -> bool:
        return self.glob is None or self.glob.fits(file) is self.wanted


@dataclass(slots=True)
class _Search:
    """One call's search, used by one thread.

    Attributes:
        root: the directory from which paths are shown.
        context: lines to show around each match.
        limit: matching lines to show.
        secrets: files that are not searched.
        found: matching lines that were shown.
        more: there are others, which were not.
    """

    root: Path
    pattern: LinePattern
    context: int
    limit: int
    secrets: Identities
    found: int = 0
    more: bool = False
    cut_lines: bool = False
    too_large: list[str] = field(default_factory=list)

    def lines(self, scope: Scope, files: Iterable[bytes]) -> Iterator[str]:
        """Yield what to show of `files`, until the limit is reached."""
        for file in files:
            trio.from_thread.check_cancelled()
            if self.more:
                return
            yield from self._lines_of(scope.path_of(file))

    def _lines_of(self, path: Path) -> Iterator[str]:
        text = self._text(path)
        if text is None:
            return
        before = self.found
        hits: list[int] = []
        for hit in self.pattern.matching_lines(text):
            if self.found == self.limit:
                self.more = True
                break
            self.found += 1
            hits.append(hit)
        if hits:
            if self.context and before:
                yield "--"
            yield from self._excerpts(display(path, self.root), text.split(b"\n"), hits)

    def _text(self, path: Path) -> bytes | None:
        try:
            # Git tracks links themselves; what they lead to is searched in its own place.
            with open_regular(path, "", self.secrets, follow_link=False) as file:
                data = file.read(FILE_LIMIT_BYTES + 1)
        except (OSError, ToolFaultError):
            return None  # it vanished or is not ours to read, which is no match
        if len(data) > FILE_LIMIT_BYTES:
            self.too_large.append(display(path, self.root))
            return None
        return None if looks_binary(data) else data.replace(b"\r\n", b"\n")

    def _excerpts(self, shown: str, lines: Sequence[bytes], hits: Sequence[int]) -> Iterator[str]:
        count = len(lines) - (lines[-1] == b"")
        matching, after = set(hits), 0
        for hit in hits:
            first = max(after, hit - self.context)
            if self.context and after and first > after:
                yield "--"
            last = min(count, hit + self.context + 1)
            for index in range(first, last):
                sign = ":" if index in matching else "-"
                text = lines[index].decode("utf-8", "replace")
                self.cut_lines = self.cut_lines or len(text) > LINE_LIMIT_CHARS
                yield f"{shown}{sign}{index + 1}{sign} {cut_line(text, LINE_LIMIT_CHARS)}"
            after = max(after, last)


def _answer(search: _Search, scope: Scope, chooser: _Chooser) -> ToolAnswer:
    files = (file for file in scope.files if chooser.takes(file))
    kept = keep_first(search.lines(scope, files))
    notes = list(scope.notes)
    if not kept.complete:
        notes.append(
            f"cut at {LINE_LIMIT} lines or {BYTE_LIMIT // 1024} KB; narrow it with path or glob"
        )
    elif search.more:
        notes.append(
            f"the first {search.limit} matching lines are shown; narrow it with path or glob, "
            f"or raise limit, up to {LINE_LIMIT}"
        )
    if search.cut_lines:
        notes.append(f"lines are cut at {LINE_LIMIT_CHARS} characters; read shows them whole")
    if search.too_large:
        some = ", ".join(search.too_large[:_FILES_NAMED])
        notes.append(f"{len(search.too_large)} too large to be searched, such as {some}")
    return ToolAnswer(with_notes(kept.text or "no line matches", notes))


GREP = build(
    _grep,
    "grep",
    description="Search files for lines that match a regular expression (RE2 syntax). Files that "
    "Git ignores are left out, unless path names them or their directory. Answers path:line: text, "
    "and path-line- text for context; long lines are cut.",
    arguments=GrepArguments,
)
