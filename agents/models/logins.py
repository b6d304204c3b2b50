"""Whether a Pi that runs an agent can log in to a provider by itself.

It shares the user's files, logins that Pi made included, but not the user's environment: whatever
is in the environment of such a Pi, the shell of its agent can read.
"""

from collections.abc import Mapping

from agents.models.catalog import KNOWN, Catalog
from agents.models.endpoint import Secret
from agents.models.keys import FoundKey, find_headers, find_key


def login_fault(
    provider: str, catalog: Catalog, *, shown: Mapping[str, str], environment: Mapping[str, str]
) -> str | None:
    """Return why a Pi that runs an agent cannot ask `provider`, as a phrase; None when it can.

    Args:
        provider: its name.
        catalog: what the user's files say.
        shown: the environment that the agent's programs see.
        environment: the user's, whose keys they do not see.
    """
    fault = _key_fault(provider, catalog, shown, environment)
    if fault is not None:
        return fault
    headers = find_headers(_without_commands(catalog.headers(provider)), shown)
    return headers if isinstance(headers, str) else None


def find_secrets(provider: str, catalog: Catalog, shown: Mapping[str, str]) -> tuple[Secret, ...]:
    """Return what such a Pi shows to `provider`, as far as it is not for Pi alone to know."""
    key = find_key(provider, catalog, shown)
    headers = find_headers(_without_commands(catalog.headers(provider)), shown)
    return (
        *(() if isinstance(key, str) else (key.key,)),
        *(() if isinstance(headers, str) else headers.values()),
    )


def _key_fault(
    provider: str, catalog: Catalog, shown: Mapping[str, str], environment: Mapping[str, str]
) -> str | None:
    if _is_pis_own(provider, catalog):
        return None
    found = find_key(provider, catalog, shown)
    if isinstance(found, FoundKey):
        return None
    hidden = find_key(provider, catalog, environment)
    if isinstance(hidden, FoundKey):
        return (
            f"its key is only in the environment ({hidden.source}), where the agent's shell would "
            f"see it: put it into {catalog.auth.source}, or use the backend in-process"
        )
    if provider in KNOWN or provider in catalog.models.providers:
        return found
    return f"no login: make one with /login in pi, or put a key into {catalog.auth.source}"


def _is_pis_own(provider: str, catalog: Catalog) -> bool:
    """Return whether only Pi knows how to get the key: by a login, or by running a command."""
    if provider in catalog.auth.keys:
        stored = catalog.auth.keys[provider]
        return stored is None or _is_command(stored)
    entry = catalog.models.providers.get(provider)
    return entry is not None and entry.key is not None and _is_command(entry.key)


def _without_commands(headers: Mapping[str, Secret]) -> Mapping[str, Secret]:
    return {name: value for name, value in headers.items() if not _is_command(value)}


def _is_command(value: Secret) -> bool:
    return value.reveal().strip().startswith("!")
