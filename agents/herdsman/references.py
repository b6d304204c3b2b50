"""What names a result of an agent: how it is written, and what it stands for in one session.

A semantic reference such as `result:scout#1` means something only where the session's history says
so. A canonical one names the result by its request, and means the same everywhere.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agents.herdsman.errors import HerdError, ambiguous, broken, invalid, not_found
from agents.herdsman.identity import LABEL_PATTERN, Label, RequestId, is_uuid
from agents.herdsman.record import Binding
from agents.herdsman.runtime import BINDING, RESULT, Entry
from engine.core.quote import quote_value

PREFIX: Final = "result:"
# The highest integer that every program keeps apart from its neighbours.
MOST_INDEX: Final = 2**53 - 1
# In the details of a message with a result.
REQUEST_KEY: Final = "request"
LABEL_KEY: Final = "agentLabel"
INDEX_KEY: Final = "resultIndex"
CANONICAL_KEY: Final = "canonicalRef"

_COPY: Final = "copy a reference exactly as a result's message shows it"
_SEMANTIC: Final = re.compile(f"({LABEL_PATTERN.strip('^$')})#([1-9][0-9]{{0,15}})")


@dataclass(frozen=True, slots=True)
class Semantic:
    """A result as its owner knows it: the label of its agent, and a number from 1."""

    label: Label
    index: int

    def __str__(self) -> str:
        return f"{PREFIX}{self.label}#{self.index}"


@dataclass(frozen=True, slots=True)
class Canonical:
    """A result by the request of its task."""

    request: RequestId

    def __str__(self) -> str:
        return f"{PREFIX}{self.request}"


def parse_reference(text: str) -> Semantic | Canonical | None:
    """Return the reference that a text is; None for one that names an ordinary file.

    Raises:
        HerdError: INVALID_REQUEST: it begins like a reference and is none.
    """
    if not text.startswith(PREFIX):
        return None
    name = text.removeprefix(PREFIX)
    if "#" not in name:
        if is_uuid(name):
            return Canonical(RequestId(name))
        raise invalid(
            f"{quote_value(text)} is no reference to a result: a number after the label, or the "
            "whole id of a request is missing",
            next_action=f"{_COPY}; a file of that name is ./{PREFIX}…",
        )
    found = _SEMANTIC.fullmatch(name)
    if found is None or int(found[2]) > MOST_INDEX:
        raise invalid(
            f"{quote_value(text)} is no reference to a result: it must be {PREFIX}, a label, # and "
            "a number from 1 without leading zeros",
            next_action=f"{_COPY}; a file of that name is ./{PREFIX}…",
        )
    return Semantic(Label(found[1]), int(found[2]))


def result_details(request: RequestId, label: Label, index: int) -> dict[str, Any]:
    """Return what the message of a reusable result says about it to programs."""
    return {
        REQUEST_KEY: request,
        LABEL_KEY: label,
        INDEX_KEY: index,
        CANONICAL_KEY: str(Canonical(request)),
    }


def binding_details(binding: Binding) -> dict[str, Any]:
    """Return what an entry of the kind BINDING holds."""
    return {"semantic": binding.semantic, "canonical": binding.canonical}


def resolve(semantic: Semantic, entries: Sequence[Entry]) -> Canonical:
    """Return what a semantic reference stands for in a session, where it stands now.

    Args:
        semantic: the reference.
        entries: of the session; what is on other branches says nothing here.

    Raises:
        HerdError: TARGET_NOT_FOUND: for nothing. TARGET_AMBIGUOUS: for different results.
            INTERNAL_FAILURE: an entry contradicts itself.
    """
    found = set(_meanings(semantic, entries))
    if not found:
        raise not_found(
            f"{semantic} stands for no result here",
            next_action=f"{_COPY}, or use the canonical reference in its details",
        )
    if len(found) > 1:
        raise ambiguous(
            f"{semantic} stands for {len(found)} different results here",
            next_action="use the canonical reference of the one that is meant",
        )
    return found.pop()


def import_bindings(bindings: Sequence[Binding], entries: Sequence[Entry]) -> tuple[Binding, ...]:
    """Return those of the bindings in a message that its reader's session is still to be told.

    Args:
        bindings: of an accepted request or of a question.
        entries: of the session that the message is for.

    Raises:
        HerdError: TARGET_AMBIGUOUS: the session knows another result by one of these references.
            INVALID_REQUEST: one is no binding. INTERNAL_FAILURE: an entry contradicts itself.
    """
    return tuple(binding for binding in bindings if _is_new(binding, entries))


def _is_new(binding: Binding, entries: Sequence[Entry]) -> bool:
    fault = binding_fault(binding)
    if fault is not None:
        raise invalid(fault)
    semantic = _semantic(binding.semantic)
    assert semantic is not None
    known = {str(one) for one in _meanings(semantic, entries)}
    if known - {binding.canonical}:
        raise ambiguous(
            f"{semantic} stands for another result in this session",
            next_action="attach that result by its canonical reference",
        )
    return not known


def binding_fault(binding: Binding) -> str | None:
    """Return why something is no binding; None when it is one."""
    if _semantic(binding.semantic) is None:
        return f"{quote_value(binding.semantic)} is no semantic reference to a result"
    if _canonical(binding.canonical) is None:
        return f"{quote_value(binding.canonical)} is no canonical reference to a result"
    return None


def highest_index(label: Label, entries: Sequence[Entry]) -> int:
    """Return the highest number that a session knows a result of a label by, on any branch.

    0 where it knows none.
    """
    return max((one.index for one in _named(entries) if one.label == label), default=0)


def _named(entries: Sequence[Entry]) -> Iterator[Semantic]:
    for entry in entries:
        if entry.kind == RESULT:
            label, index = entry.details.get(LABEL_KEY), _index(entry.details)
            if isinstance(label, str) and index is not None:
                yield Semantic(Label(label), index)
        elif entry.kind == BINDING:
            semantic = _semantic(entry.details.get("semantic"))
            if semantic is not None:
                yield semantic


def _meanings(semantic: Semantic, entries: Sequence[Entry]) -> Iterator[Canonical]:
    for entry in entries:
        if not entry.on_branch:
            continue
        details = entry.details
        if entry.kind == RESULT and _is_of(details, semantic):
            yield _delivered(semantic, details)
        elif entry.kind == BINDING and details.get("semantic") == str(semantic):
            canonical = _canonical(details.get("canonical"))
            if canonical is None:
                raise broken(f"this session holds what {semantic} stands for in a broken form")
            yield canonical


def _is_of(details: Mapping[str, Any], semantic: Semantic) -> bool:
    return details.get(LABEL_KEY) == semantic.label and _index(details) == semantic.index


def _delivered(semantic: Semantic, details: Mapping[str, Any]) -> Canonical:
    canonical = _canonical(details.get(CANONICAL_KEY))
    if canonical is None or canonical.request != details.get(REQUEST_KEY):
        raise broken(f"the message with {semantic} names a result that is not its own")
    return canonical


def _index(details: Mapping[str, Any]) -> int | None:
    index = details.get(INDEX_KEY)
    # True is 1 to Python.
    return index if type(index) is int else None


def _semantic(value: object) -> Semantic | None:
    found = _parsed(value)
    return found if isinstance(found, Semantic) else None


def _canonical(value: object) -> Canonical | None:
    found = _parsed(value)
    return found if isinstance(found, Canonical) else None


def _parsed(value: object) -> Semantic | Canonical | None:
    """Return the reference that some details hold; None where that is none."""
    try:
        return parse_reference(value) if isinstance(value, str) else None
    except HerdError:
        return None
