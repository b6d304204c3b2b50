"""Which providers a Pi that runs an agent can log in to by itself."""

from collections.abc import Mapping

import pytest

from agents.models.catalog import Catalog
from agents.models.endpoint import Secret
from agents.models.logins import login_fault
from agents.models.pi_files import AuthFile, ModelsFile, ProviderEntry

ENVIRONMENT = {"ANTHROPIC_API_KEY": "from-env", "MINE": "from-mine", "TEAM": "from-team"}


def fault_of(
    provider: str,
    *,
    auth: Mapping[str, str | None] | None = None,
    key: str | None = None,
    headers: Mapping[str, str] | None = None,
    shown: tuple[str, ...] = (),
) -> str | None:
    """Return why a provider cannot be asked by a Pi that sees the variables `shown`."""
    stored = {name: None if each is None else Secret(each) for name, each in (auth or {}).items()}
    secrets = {name: Secret(value) for name, value in (headers or {}).items()}
    entries = {}
    if key is not None or headers is not None:
        entries[provider] = ProviderEntry(key=Secret(key) if key else None, headers=secrets)
    catalog = Catalog(ModelsFile(providers=entries), AuthFile(keys=stored))
    seen = {name: ENVIRONMENT[name] for name in shown}
    return login_fault(provider, catalog, shown=seen, environment=ENVIRONMENT)


@pytest.mark.parametrize("provider", ["anthropic", "github-copilot"])
@pytest.mark.parametrize("stored", [None, "sk-literal", "!security find-key"])
def test_what_pi_stored_serves_it(provider: str, stored: str | None) -> None:
    assert fault_of(provider, auth={provider: stored}) is None


@pytest.mark.parametrize("key", ["sk-literal", "!security find-key"])
def test_a_key_in_a_file_serves_it(key: str) -> None:
    assert fault_of("loop", key=key) is None


@pytest.mark.parametrize(
    ("provider", "fields", "source"),
    [
        ("anthropic", {}, "$ANTHROPIC_API_KEY"),
        ("loop", {"key": "$MINE"}, "models.json"),
        ("loop", {"auth": {"loop": "${MINE}"}}, "auth.json"),
    ],
)
def test_a_key_in_the_environment_is_none_since_the_shell_would_see_it(
    provider: str, fields: dict[str, object], source: str
) -> None:
    assert fault_of(provider, **fields) == (  # type: ignore[arg-type]  # the fields of each row
        f"its key is only in the environment ({source}), where the agent's shell would see it: "
        "put it into auth.json, or use the backend in-process"
    )


def test_a_variable_that_the_user_hands_on_serves_it() -> None:
    assert fault_of("anthropic", shown=("ANTHROPIC_API_KEY",)) is None
    assert fault_of("loop", key="$MINE", shown=("MINE",)) is None


def test_without_any_key_the_remedy_is_one_of_pis() -> None:
    assert fault_of("mystery") == (
        "no login: make one with /login in pi, or put a key into auth.json"
    )
    assert fault_of("openai") == "no key: put one into auth.json, or set OPENAI_API_KEY"
    assert fault_of("loop", key="$GONE") == (
        "its apiKey in models.json is the variable GONE, which is not set"
    )


def test_headers_need_their_variables_too() -> None:
    fault = fault_of("loop", key="k", headers={"X-Team": "$TEAM"})
    assert fault == "its header 'X-Team' in models.json is the variable TEAM, which is not set"
    assert fault_of("loop", key="k", headers={"X-Team": "$TEAM"}, shown=("TEAM",)) is None
    assert fault_of("loop", key="k", headers={"X-Team": "!whoami"}) is None
