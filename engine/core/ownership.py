"""Which writer may change which paths, and that writers who run side by side never share one.

Entries are literal paths. An entry owns the path it names and everything beneath it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from engine.core.errors import UsageError
from engine.core.graph import TaskGraph
from engine.core.ids import TaskId
from engine.core.paths import fold_path
from engine.core.quote import quote_value
from engine.core.spec import TaskSpec


class OwnershipOverlapError(UsageError):
    """Two writers of which neither waits for the other own the same path."""

    def __init__(self, first: tuple[TaskId, str], second: tuple[TaskId, str]) -> None:
        self.first = first
        self.second = second
        super().__init__(
            f"task {second[0]}: ownership: {quote_value(second[1])} overlaps "
            f"{quote_value(first[1])} of task {first[0]}, and neither waits for the other; "
            "divide the paths or put one task into the other's after"
        )


def normalise_entry(text: str) -> str:
    """Return an entry without the one slash that it may end with."""
    return text[:-1] if text.endswith("/") and text != "/" else text


@dataclass(frozen=True, slots=True)
class Ownership:
    """What one writer owns, ready for many questions.

    Attributes:
        folded: the entries in the form in which equal means the same file.
    """

    folded: frozenset[bytes]
    fold_case: bool

    @classmethod
    def build(cls, entries: Iterable[str], *, fold_case: bool) -> "Ownership":
        """Return the ownership that the normalised `entries` describe."""
        return cls(frozenset(_folded(entry, fold_case=fold_case) for entry in entries), fold_case)

    def owns(self, path: bytes) -> bool:
        """Whether an entry names `path` or a folder that it lies in."""
        folded = fold_path(path, fold_case=self.fold_case)
        at = len(folded)
        while at > 0:
            if folded[:at] in self.folded:
                return True
            at = folded.rfind(b"/", 0, at)
        return False


def check_independent(graph: TaskGraph, specs: Sequence[TaskSpec], *, fold_case: bool) -> None:
    """Refuse writers that may run side by side and own the same path.

    Takes time in proportion to the entries, not to the pairs of tasks.

    Args:
        graph: the graph of `specs`.
        specs: in input order; tasks that own nothing do not matter.
        fold_case: whether the volume takes names that differ in letter case for one name.

    Raises:
        OwnershipOverlapError: names the pair whose later task comes first in the input.
    """
    bits = {spec.id: 1 << index for index, spec in enumerate(specs)}
    names = {bit: task for task, bit in bits.items()}
    lines = [(entry, bits[spec.id]) for spec in specs for entry in spec.ownership]
    found = min(
        _clashes(lines, related=_related(graph, bits), fold_case=fold_case),
        key=lambda clash: sorted((clash.bit, clash.other_bit), reverse=True),
        default=None,
    )
    if found is not None:
        sides = sorted([(found.bit, found.entry), (found.other_bit, found.other_entry)])
        first, second = ((names[bit], entry) for bit, entry in sides)
        raise OwnershipOverlapError(first, second)


def _related(graph: TaskGraph, bits: Mapping[TaskId, int]) -> dict[int, int]:
    """Return, per task's bit, the bits of the tasks before and behind it."""
    related = dict.fromkeys(bits.values(), 0)
    for edges, order in (
        (graph.predecessors, graph.order),
        (graph.dependents, tuple(reversed(graph.order))),
    ):
        reach: dict[TaskId, int] = {}
        for task in order:
            reach[task] = 0
            for near in edges[task]:
                reach[task] |= reach[near] | bits[near]
            related[bits[task]] |= reach[task]
    return related


@dataclass(frozen=True, slots=True)
class _Clash:
    bit: int
    entry: str
    other_bit: int
    other_entry: str


@dataclass(slots=True)
class _Place:
    """A path that someone owns; `above` are all who own it or a folder that it lies in."""

    key: bytes
    owners: dict[int, str]
    above: int


def _clashes(
    lines: Iterable[tuple[str, int]], *, related: Mapping[int, int], fold_case: bool
) -> Iterable[_Clash]:
    """Yield, for each owned path, one clash per owner with the lowest bit it clashes with."""
    places: dict[bytes, _Place] = {}
    for entry, bit in lines:
        # What starts with a path and its slash lies in it, and sorts right behind it.
        key = _folded(entry, fold_case=fold_case) + b"/"
        place = places.setdefault(key, _Place(key, {}, 0))
        place.owners.setdefault(bit, entry)
        place.above |= bit
    folders: list[_Place] = []
    for _, place in sorted(places.items()):
        while folders and not place.key.startswith(folders[-1].key):
            folders.pop()
        if folders:
            place.above |= folders[-1].above
        folders.append(place)
        for bit, entry in place.owners.items():
            others = place.above & ~related[bit] & ~bit
            if others:
                other = others & -others
                yield _Clash(bit, entry, other, _entry_of(folders, other))


def _entry_of(folders: Sequence[_Place], bit: int) -> str:
    return next(place.owners[bit] for place in reversed(folders) if bit in place.owners)


def _folded(entry: str, *, fold_case: bool) -> bytes:
    return fold_path(entry.encode("utf-8"), fold_case=fold_case)
