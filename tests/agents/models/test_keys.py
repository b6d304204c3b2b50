"""Where the key of a provider is found."""

from collections.abc import Mapping

import pytest

from agents.models.catalog import Catalog
from agents.models.endpoint import Secret
from agents.models.keys import FoundKey, describe_keys, find_headers, find_key
from agents.models.pi_files import AuthFile, ModelsFile, ProviderEntry

ENVIRONMENT = {"ANTHROPIC_API_KEY": "from-env", "MINE": " from-mine\n", "EMPTY": " "}


def catalog(
    auth: Mapping[str, str | None] | None = None, models: Mapping[str, str] | None = None
) -> Catalog:
    """Return a catalog with these keys."""
    stored = {name: None if key is None else Secret(key) for name, key in (auth or {}).items()}
    entries = {name: ProviderEntry(key=Secret(key)) for name, key in (models or {}).items()}
    return Catalog(ModelsFile(providers=entries), AuthFile(keys=stored))


@pytest.mark.parametrize(
    ("auth", "models", "key", "source"),
    [
        ("in-auth", "in-models", "in-auth", "auth.json"),
        (None, "in-models", "in-models", "models.json"),
        (None, None, "from-env", "$ANTHROPIC_API_KEY"),
    ],
)
def test_the_first_place_that_has_a_key_decides(
    auth: str | None, models: str | None, key: str, source: str
) -> None:
    known = catalog({"anthropic": auth} if auth else {}, {"anthropic": models} if models else {})
    assert find_key("anthropic", known, ENVIRONMENT) == FoundKey(Secret(key), source)


@pytest.mark.parametrize(
    ("stated", "key"),
    [
        ("literal", "literal"),
        ("$MINE", "from-mine"),
        ("${MINE}", "from-mine"),
        ("$not-a-name", "$not-a-name"),
        ("a$MINE", "a$MINE"),
    ],
)
def test_a_key_may_name_a_variable(stated: str, key: str) -> None:
    found = find_key("loop", catalog(models={"loop": stated}), ENVIRONMENT)
    assert found == FoundKey(Secret(key), "models.json")


@pytest.mark.parametrize(
    ("stated", "problem"),
    [
        ("!security find-key", "its apiKey in models.json is a command, which is not run here"),
        ("$GONE", "its apiKey in models.json is the variable GONE, which is not set"),
        ("${EMPTY}", "its apiKey in models.json is the variable EMPTY, which is not set"),
        (" ", "its apiKey in models.json is empty"),
        ("kéy", "its apiKey in models.json holds characters that cannot be sent"),
        ("a\nX-Evil: b", "its apiKey in models.json holds characters that cannot be sent"),
    ],
)
def test_a_key_that_cannot_be_used_is_told_and_not_passed_over(stated: str, problem: str) -> None:
    known = catalog(models={"anthropic": stated})
    found = find_key("anthropic", known, ENVIRONMENT)
    assert isinstance(found, str)
    assert found.startswith(problem)


def test_what_a_variable_holds_is_not_resolved_again() -> None:
    found = find_key("openai", catalog(), {"OPENAI_API_KEY": "$HOME"})
    assert found == FoundKey(Secret("$HOME"), "$OPENAI_API_KEY")
    bad = find_key("openai", catalog(), {"OPENAI_API_KEY": "k\u20ac"})
    assert bad == "$OPENAI_API_KEY holds characters that cannot be sent"


def test_a_login_serves_only_pi_so_the_next_place_is_looked_at() -> None:
    known = catalog({"anthropic": None})
    assert find_key("anthropic", known, ENVIRONMENT) == FoundKey(
        Secret("from-env"), "$ANTHROPIC_API_KEY"
    )
    assert find_key("anthropic", known, {}) == (
        "no key: the login in auth.json serves only Pi itself; "
        "put one into auth.json, or set ANTHROPIC_API_KEY"
    )


def test_no_key_at_all_says_where_one_can_go() -> None:
    assert find_key("openai", catalog(), {"OPENAI_API_KEY": " "}) == (
        "no key: put one into auth.json, or set OPENAI_API_KEY"
    )
    assert find_key("loop", catalog(), {}) == (
        "no key: put one into auth.json, or its apiKey into models.json"
    )


def test_headers_are_resolved_like_keys() -> None:
    headers = {"X-Team": Secret("$MINE"), "X-Plain": Secret("blue team")}
    assert find_headers(headers, ENVIRONMENT) == {
        "X-Team": Secret("from-mine"),
        "X-Plain": Secret("blue team"),
    }


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("X Team", "a", "its header 'X Team' in models.json has a name that no header can have"),
        ("X", "$GONE", "its header 'X' in models.json is the variable GONE, which is not set"),
        ("X", "!ls", "its header 'X' in models.json is a command, which is not run here"),
    ],
)
def test_a_header_that_cannot_be_sent_is_told(name: str, value: str, problem: str) -> None:
    found = find_headers({name: Secret(value)}, ENVIRONMENT)
    assert isinstance(found, str)
    assert found.startswith(problem)


def test_keys_are_described_without_the_keys() -> None:
    known = catalog(
        {"groq": "k1", "openai": None, "google": "k3"}, {"loop": "k2", "other": "$GONE"}
    )
    assert describe_keys(known, ENVIRONMENT) == (
        "loop: key from models.json",
        "other: its apiKey in models.json is the variable GONE, which is not set",
        "anthropic: key from $ANTHROPIC_API_KEY",
        (
            "openai: no key: the login in auth.json serves only Pi itself; put one into auth.json, "
            "or set OPENAI_API_KEY"
        ),
        "groq: key from auth.json",
        "google: in auth.json, but not in models.json: no address",
    )
    assert describe_keys(catalog(), {}) == ()
