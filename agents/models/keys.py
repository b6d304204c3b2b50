"""Finds the key of a provider, in the order in which Pi looks for it.

`auth.json`, then the provider's `apiKey` in `models.json`, then the environment variable that is
usual for the provider. The first place that says something decides: what is wrong there is said and
not passed over, since another key may be charged to somebody else.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from agents.models.catalog import KNOWN, Catalog
from agents.models.endpoint import Secret
from agents.models.pi_files import AUTH_FILE, MODELS_FILE

_VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@dataclass(frozen=True, slots=True)
class FoundKey:
    """A key and, for people, where it stands."""

    key: Secret
    source: str


def find_key(provider: str, catalog: Catalog, environment: Mapping[str, str]) -> FoundKey | str:
    """Return the key of `provider`, or why there is none, as a phrase."""
    stored = catalog.auth.keys.get(provider)
    if stored is not None:
        return _found(stored, environment, f"its key in {AUTH_FILE}", AUTH_FILE)
    entry = catalog.models.providers.get(provider)
    if entry is not None and entry.key is not None:
        return _found(entry.key, environment, f"its apiKey in {MODELS_FILE}", MODELS_FILE)
    known = KNOWN.get(provider)
    if known is not None and environment.get(known.variable, "").strip():
        place = f"${known.variable}"
        checked = _checked(environment[known.variable], place)
        return checked if isinstance(checked, str) else FoundKey(checked, place)
    is_login = provider in catalog.auth.keys
    login = f"the login in {AUTH_FILE} serves only Pi itself; " if is_login else ""
    variable = f", or set {known.variable}" if known else f", or its apiKey into {MODELS_FILE}"
    return f"no key: {login}put one into {catalog.auth.source}{variable}"


def describe_keys(catalog: Catalog, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return a line on each provider that has a key or that the user wrote down, never the key."""
    written = {*catalog.models.providers, *catalog.auth.keys}
    lines = []
    for provider in catalog.providers:
        found = find_key(provider, catalog, environment)
        if isinstance(found, FoundKey):
            lines.append(f"{provider}: key from {found.source}")
        elif provider in written:
            lines.append(f"{provider}: {found}")
    strangers = (name for name in catalog.auth.keys if name not in catalog.providers)
    lines += [f"{name}: in {AUTH_FILE}, but not in {MODELS_FILE}: no address" for name in strangers]
    return tuple(lines)


def find_headers(
    headers: Mapping[str, Secret], environment: Mapping[str, str]
) -> Mapping[str, Secret] | str:
    """Return `headers` with what their values refer to, or what is wrong with one, as a phrase."""
    found = {}
    for name, value in headers.items():
        place = f"its header {name!r} in {MODELS_FILE}"
        if not _HEADER_NAME.fullmatch(name):
            return f"{place} has a name that no header can have"
        resolved = _resolve(value, environment, place)
        if isinstance(resolved, str):
            return resolved
        found[name] = resolved
    return found


def _found(
    value: Secret, environment: Mapping[str, str], place: str, source: str
) -> FoundKey | str:
    resolved = _resolve(value, environment, place)
    return resolved if isinstance(resolved, str) else FoundKey(resolved, source)


def _resolve(value: Secret, environment: Mapping[str, str], place: str) -> Secret | str:
    """Return what `value` means: itself, or the variable that it names; else what is wrong."""
    text = value.reveal().strip()
    if text.startswith("!"):
        return f"{place} is a command, which is not run here: put the key itself or $NAME there"
    if named := _VARIABLE.fullmatch(text):
        name = named[1] or named[2]
        text = environment.get(name, "").strip()
        if not text:
            return f"{place} is the variable {name}, which is not set"
    return _checked(text, place)


def _checked(text: str, place: str) -> Secret | str:
    text = text.strip()
    if not text:
        return f"{place} is empty"
    if not (text.isascii() and text.isprintable()):
        return f"{place} holds characters that cannot be sent"
    return Secret(text)
