"""Pages of the reference as values: their tables, their examples, and whether an answer fits them.

A page writes `…` where it leaves something out: at the end of an object or a list, and inside of a
text. Digits of an id before it stand for any id, times and durations for any time.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"
MORE = "…"
# What is said of managed agents has a story of its own.
HERD_PAGES = frozenset(
    {"herd.md", "tools/ask_owner.md"}
    | {path.relative_to(FOLDER).as_posix() for path in FOLDER.glob("tools/agent_*.md")}
)
_TIMES = frozenset({"at", "createdAt", "startedAt", "endedAt", "elapsedMs", "ms"})
_ID = re.compile(r"[0-9a-f]{16}")
# As it stands in an escaped pattern.
_UUID = re.compile(r"[0-9a-f]{8}(?:\\-[0-9a-f]{4}){3}\\-[0-9a-f]{12}")
_ANY_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_LINK = re.compile(r"\]\(([^)#]*)(?:#([\w-]+))?\)")
_INLINE = re.compile(r"`\{([^}]*)\}`")
_BACKTICKS = re.compile(r"^(`+) ?(.*?) ?\1$")


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table; its first cell is without backticks."""

    name: str
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Page:
    """A page below `docs/reference`."""

    name: str

    @cached_property
    def text(self) -> str:
        """The page as it lies on disk."""
        return (FOLDER / self.name).read_text(encoding="utf-8")

    @cached_property
    def sections(self) -> Mapping[str, str]:
        """What stands below each heading, without what stands below the next one."""
        parts = re.split(r"^#+ (.+)$", self.text, flags=re.MULTILINE)
        return dict(zip(parts[1::2], parts[2::2], strict=True))

    def rows(self, heading: str) -> list[Row]:
        """Return the rows of the table below a heading, without its head."""
        lines = [line for line in self.sections[heading].splitlines() if line.startswith("| ")]
        found = []
        for line in lines[2:]:
            first, *cells = (cell.strip() for cell in line.strip("|").split(" | "))
            quoted = _BACKTICKS.match(first)
            found.append(Row(quoted[2] if quoted else first, tuple(cells)))
        return found

    def block(self, info: str) -> str:
        """Return the one block of the page that is marked with `info`."""
        (found,) = re.findall(rf"^```{info}\n(.*?)^```$", self.text, re.MULTILINE | re.DOTALL)
        assert isinstance(found, str)
        return found

    def json(self, mark: str) -> Any:
        """Return what the block of JSON holds that is marked with `mark`."""
        return json.loads(self.block(f"json {mark}"))


def _plain(text: str) -> str:
    """Return a cell's text without its links."""
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)


def rule_faults(rows: list[Row], schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield in what a table is not what a schema says."""
    properties = schema["properties"]
    if [row.name for row in rows] != list(properties):
        yield f"the fields are {list(properties)}"
        return
    for row in rows:
        default, rule = row.cells
        field = properties[row.name]
        expected = "none"
        if row.name in schema.get("required", ()):
            expected = "required"
        elif "default" in field:
            expected = f"`{json.dumps(field['default'])}`"
        if default != expected:
            yield f"{row.name}: the default is {expected}"
        if not _plain(rule).startswith(field["description"]):
            yield f"{row.name}: the rule is {field['description']}"


def refusal_faults(rows: list[Row], said: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield what a table tells and nobody says, and what is said and the table does not tell.

    Args:
        rows: each with what is said, and its kind.
        said: the kind and the words of each refusal.
    """
    heard = list(said)
    for row in rows:
        if not any(kind == row.cells[0] and fits(row.name, text) for kind, text in heard):
            yield f"nobody says: {row.name}"
    for kind, text in heard:
        if not any(kind == row.cells[0] and fits(row.name, text) for row in rows):
            yield f"it does not tell: {kind}: {text}"


def anchor(heading: str) -> str:
    """Return what a link to a heading names."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


class Shapes:
    """What the tables say about the fields of answers, and which of them were seen."""

    def __init__(self, extended: Mapping[str, str]) -> None:
        """Read all pages.

        Args:
            extended: a shape, such as `answers.md#saved-result`, to the one that it adds to.
        """
        self._extended = extended
        self._rows: dict[str, dict[str, Row]] = {}
        self.seen: set[tuple[str, str]] = set()
        for path in sorted(FOLDER.rglob("*.md")):
            page = Page(path.relative_to(FOLDER).as_posix())
            for heading, text in page.sections.items():
                if "| Field | What it holds |" in text:
                    rows = page.rows(heading)
                    self._rows[f"{page.name}#{anchor(heading)}"] = {row.name: row for row in rows}

    def faults(self, shape: str, value: Mapping[str, Any]) -> Iterator[str]:
        """Yield in what an answer is not as described."""
        fields = self._fields(shape)
        known = {name.rstrip("?") for name in fields}
        yield from (f"{shape}: {name} is not described" for name in value.keys() - known)
        for name, (owner, row) in fields.items():
            key = name.rstrip("?")
            if key in value:
                self.seen.add((owner, name))
                yield from self._inner_faults(owner, row, value[key])
            elif name == key:
                yield f"{shape}: {name} is missing"

    def unseen(
        self, *, only: Collection[str] | None = None, but_for: Collection[str] = ()
    ) -> set[tuple[str, str]]:
        """Return the fields that no answer had.

        Args:
            only: the pages that count; None for all.
            but_for: pages that do not.
        """
        shapes = {
            shape: rows
            for shape, rows in self._rows.items()
            if (only is None or shape.split("#")[0] in only) and shape.split("#")[0] not in but_for
        }
        return {(shape, name) for shape, rows in shapes.items() for name in rows} - self.seen

    def _fields(self, shape: str) -> dict[str, tuple[str, Row]]:
        below = self._fields(self._extended[shape]) if shape in self._extended else {}
        own = self._rows[shape]
        taken = {name.rstrip("?") for name in own}
        kept = {name: each for name, each in below.items() if name.rstrip("?") not in taken}
        return kept | {name: (shape, row) for name, row in own.items()}

    def _inner_faults(self, owner: str, row: Row, value: object) -> Iterator[str]:
        said = row.cells[0]
        entries = value if isinstance(value, list) else [value]
        objects: list[dict[str, Any]] = [each for each in entries if isinstance(each, dict)]
        if not objects or said.startswith("a map "):
            return
        inline = _INLINE.search(said)
        linked = [self._linked(owner, link) for link in _LINK.finditer(said)]
        shapes = [shape for shape in linked if shape in self._rows]
        for each in objects:
            if inline is not None:
                yield from _inline_faults(f"{owner} {row.name}", inline[1].split(", "), each)
            elif shapes:
                yield from self.faults(shapes[0], each)
            elif not linked:
                yield f"{owner}: {row.name} is an object, and nothing says of which fields"

    def _linked(self, owner: str, link: re.Match[str]) -> str:
        page = owner.split("#", maxsplit=1)[0]
        if link[1]:
            leads_to = (FOLDER / page).parent / link[1]
            resolved = leads_to.resolve()
            page = resolved.relative_to(FOLDER).as_posix() if FOLDER in resolved.parents else "-"
        return f"{page}#{link[2] or 'answer'}"


def _inline_faults(where: str, names: list[str], value: Mapping[str, Any]) -> Iterator[str]:
    known = {name.rstrip("?") for name in names}
    yield from (f"{where}: {name} is not described" for name in value.keys() - known)
    needed = {name for name in names if not name.endswith("?")}
    yield from (f"{where}: {name} is missing" for name in needed - value.keys())


def differences(shown: object, real: object, at: str = "") -> Iterator[str]:
    """Yield in what a real answer is not what a page shows."""
    match shown, real:
        case dict(), dict():
            yield from _field_differences(shown, real, at)
        case list(), list():
            if len(shown) != len(real):
                yield f"{at} has {len(real)} entries"
            for number, (one, other) in enumerate(zip(shown, real, strict=False)):
                yield from differences(one, other, f"{at}[{number}]")
        case str(), str():
            if not fits(shown, real):
                yield f"{at} is {real!r}"
        case _:
            if type(shown) is not type(real) or shown != real:
                yield f"{at} is {real!r}"


def _field_differences(
    shown: Mapping[str, object], real: Mapping[str, object], at: str
) -> Iterator[str]:
    names = shown.keys() - {MORE}
    if MORE not in shown and names != real.keys():
        yield f"{at}: the fields are {sorted(real)}"
    yield from (f"{at}.{name} is missing" for name in names - real.keys())
    for name in names & real.keys():
        if name not in _TIMES:
            yield from differences(shown[name], real[name], f"{at}.{name}")
        elif not isinstance(real[name], int):
            yield f"{at}.{name} is no time"


def fits(shown: str, real: str) -> bool:
    """Whether a text is what a page shows; ids differ, and `…` stands for anything."""
    pattern = re.escape(shown)
    pattern = re.sub(rf"[0-9a-f]{{4,}}{MORE}", "[0-9a-f]+", pattern)
    pattern = _UUID.sub(_ANY_UUID, pattern)
    pattern = _ID.sub("[0-9a-f]{16}", pattern).replace(MORE, ".*")
    return re.fullmatch(pattern, real, re.DOTALL) is not None
