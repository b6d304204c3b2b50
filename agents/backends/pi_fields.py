"""Records of a Pi in RPC mode, as JSON whose fields are read with their types checked; pure.

A child is not trusted: whatever it sends is a value or a sentence, and never an exception of a kind
that nobody expects.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agents.models.characters import whole_characters
from agents.models.port import Usage

_MOST_SAID = 500
_HALF = re.compile(r"\\u[dD]", re.ASCII)
# No count of tokens, no delay and no price is larger; what claims to be counts as none.
_LARGEST = 1e12


class PiProtocolError(Exception):
    """The child said what no Pi says; the message tells what."""


@dataclass(frozen=True, slots=True)
class Fields:
    """A JSON object."""

    fields: Mapping[str, Any] = field(default_factory=dict)

    def text(self, name: str) -> str:
        """Return a text.

        Raises:
            PiProtocolError: there is none.
        """
        found = self.fields.get(name)
        if not isinstance(found, str):
            raise PiProtocolError(f"it sent a record whose {name} is no text")
        return found

    def some_text(self, name: str) -> str:
        """Return a text; an empty one where there is none."""
        return self.text(name) if isinstance(self.fields.get(name), str) else ""

    def number(self, name: str) -> float:
        """Return a number that is not negative; whatever else is there counts as none."""
        found = self.fields.get(name)
        if isinstance(found, bool) or not isinstance(found, int | float):
            return 0
        return float(found) if 0 <= found <= _LARGEST else 0

    def length(self, name: str) -> int:
        """Return how long a list is."""
        found = self.fields.get(name)
        return len(found) if isinstance(found, list) else 0

    def inner(self, name: str) -> "Fields":
        """Return an object inside of it; an empty one where there is none."""
        found = self.fields.get(name)
        return Fields(found if isinstance(found, dict) else {})

    def each(self, name: str) -> "tuple[Fields, ...]":
        """Return the objects in a list."""
        found = self.fields.get(name)
        listed = found if isinstance(found, list) else []
        return tuple(Fields(item) for item in listed if isinstance(item, dict))

    def is_set(self, name: str) -> bool:
        """Return whether it says that something is so."""
        return self.fields.get(name) is True

    def usage(self) -> Usage:
        """Return the usage that this message or summary reports."""
        usage = self.inner("usage")
        cached, written = usage.number("cacheRead"), usage.number("cacheWrite")
        return Usage(
            input_tokens=int(usage.number("input") + cached + written),
            output_tokens=int(usage.number("output")),
            cost_usd=usage.inner("cost").number("total"),
            cache_read_tokens=int(cached),
            cache_write_tokens=int(written),
        )


def decode_fields(line: bytes) -> Fields:
    """Return what a line says.

    Raises:
        PiProtocolError: it is no record.
    """
    try:
        record = _decode(line.decode())
    except (ValueError, RecursionError) as error:
        raise PiProtocolError(f"it sent a line that is not JSON: {_shown(line)}") from error
    if not isinstance(record, dict):
        raise PiProtocolError(f"it sent a line that is no object: {_shown(line)}")
    return Fields(record)


def decode_question(text: str) -> Mapping[str, Any]:
    """Return what our extension in the child asks.

    Raises:
        PiProtocolError: it is no object.
    """
    try:
        question = _decode(text)
    except (ValueError, RecursionError) as error:
        raise PiProtocolError("its extension asked what is not JSON") from error
    if not isinstance(question, dict):
        raise PiProtocolError("its extension asked what is no object")
    return question


def _decode(text: str) -> object:
    """Return what JSON says, with halves of characters, which no file can hold, replaced."""
    found = json.loads(text)
    return _mended(found) if _HALF.search(text) else found


def _mended(value: object) -> object:
    if isinstance(value, str):
        return whole_characters(value)
    if isinstance(value, list):
        return [_mended(each) for each in value]
    if isinstance(value, dict):
        return {whole_characters(name): _mended(each) for name, each in value.items()}
    return value


def _shown(line: bytes) -> str:
    return line[:_MOST_SAID].decode("utf-8", "replace")
