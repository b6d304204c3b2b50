"""Where each path of a journal stands, through all the plans that lie on top of each other.

An integration that follows another is planned upon it: a path may have been moved by the older
plan, and from there by the newer one. All of it blocks.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from engine.core.errors import CorruptionError
from worktrees.apply_bench import Bench
from worktrees.apply_plan import Where
from worktrees.apply_state import machine_failures
from worktrees.exchange import Mover
from worktrees.journal import Journal, JournalEntry

_MOVED = frozenset({Where.AFTER, Where.BETWEEN, Where.DISPLACED})
_TAKEN_BACK = frozenset({Where.BEFORE, Where.PUT_BACK, Where.BETWEEN})
_ASTRAY = frozenset({Where.EDITED, Where.LOST})

# For each layer, the newest first, where each of its entries stands; None for a void one.
Places = tuple[tuple[Where | None, ...], ...]


@dataclass(frozen=True, slots=True)
class Link:
    """One entry in the chain of those about one path."""

    layer: int
    slot: int
    entry: JournalEntry


@contextmanager
def open_benches(journal: Journal, mover: Mover) -> Iterator[tuple[Bench, ...]]:
    """Open a bench for each layer of a journal that an earlier call wrote, the newest first.

    Raises:
        CorruptionError: slots are gone.
        ExternalError: from the block too, for whatever the machine refuses.
    """
    for layer in journal.layers:
        if not layer.slots.is_dir():
            raise CorruptionError(
                f"the saved originals of the integration are gone from {layer.slots}; nothing was "
                "done"
            )
    with machine_failures("the checkout could not be looked at"), ExitStack() as stack:
        yield tuple(stack.enter_context(Bench(layer, mover)) for layer in journal.layers)


def chains(layers: Sequence[Journal]) -> dict[bytes, list[Link]]:
    """Return for each path the entries about it, the newest first; void ones are left out."""
    found: dict[bytes, list[Link]] = {}
    for number, layer in enumerate(layers):
        for slot, entry in enumerate(layer.entries):
            if not entry.is_void:
                found.setdefault(entry.path, []).append(Link(number, slot, entry))
    return dict(sorted(found.items()))


def locate_all(benches: Sequence[Bench]) -> Places:
    """Return where everything stands; reads every file."""
    layers = [bench.journal for bench in benches]
    places: list[list[Where | None]] = [[None] * len(layer.entries) for layer in layers]
    for path, chain in chains(layers).items():
        for link, place in zip(chain, _locate_chain(benches, path, chain), strict=True):
            places[link.layer][link.slot] = place
    return tuple(map(tuple, places))


def _locate_chain(benches: Sequence[Bench], path: bytes, chain: Sequence[Link]) -> list[Where]:
    """Return where the entries about one path stand.

    Below an entry whose move was made, what counts is what will be there once it is undone. An
    entry that seems to have gone astray was undone if the path is further back than it reaches.
    """
    live, places, astray = benches[0].live(path), list[Where](), 0
    for link in chain:
        place = benches[link.layer].locate(link.slot, live)
        if place in _ASTRAY and astray == len(places):
            astray += 1
        elif place in _TAKEN_BACK and astray == len(places):
            places = [Where.PUT_BACK] * astray
        places.append(place)
        if place in _MOVED:
            live = link.entry.before
    return places
