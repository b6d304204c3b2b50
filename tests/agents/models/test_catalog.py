"""Which models there are and what is known of them."""

from dataclasses import replace

import pytest

from agents.models.catalog import KNOWN, Catalog, ModelInfo
from agents.models.endpoint import Api, Secret
from agents.models.pi_files import ModelEntry, ModelsFile, ProviderEntry
from agents.models.price import Price

LOCAL = "http://127.0.0.1:8000/v1"
LOOP = ProviderEntry(
    base_url=LOCAL, api="openai-completions", models=(ModelEntry("m1"), ModelEntry("m2"))
)


def catalog(**providers: ProviderEntry) -> Catalog:
    return Catalog(ModelsFile("/agent/models.json", providers))


def test_a_known_provider_needs_no_file() -> None:
    assert Catalog().find("anthropic", "claude-sonnet-4-5") == ModelInfo(
        "anthropic", "claude-sonnet-4-5", Api.ANTHROPIC, "https://api.anthropic.com"
    )
    assert Catalog().find("openrouter", "a/b") == ModelInfo(
        "openrouter", "a/b", Api.OPENAI, "https://openrouter.ai/api/v1"
    )


def test_a_model_of_the_file_has_what_it_says_and_else_what_pi_assumes() -> None:
    price = Price(1, 2, 3, 4)
    big = ModelEntry(
        "big", reasoning=True, context_tokens=1_000_000, max_output_tokens=64_000, price=price
    )
    found = catalog(loop=replace(LOOP, models=(*LOOP.models, big)))
    assert found.find("loop", "m1") == ModelInfo(
        "loop", "m1", Api.OPENAI, LOCAL, 128_000, 16_384, reasoning=False
    )
    assert found.find("loop", "big") == ModelInfo(
        "loop", "big", Api.OPENAI, LOCAL, 1_000_000, 64_000, reasoning=True, price=price
    )


def test_a_model_may_be_served_elsewhere_than_its_provider_s_others() -> None:
    other = ModelEntry("m", api="anthropic-messages", base_url="https://other.example")
    info = catalog(loop=replace(LOOP, models=(other,))).find("loop", "m")
    assert isinstance(info, ModelInfo)
    assert (info.api, info.base_url) == (Api.ANTHROPIC, "https://other.example")


def test_a_known_provider_can_be_rerouted_and_keeps_its_models() -> None:
    found = catalog(openai=ProviderEntry(base_url=LOCAL), anthropic=ProviderEntry())
    assert found.find("openai", "gpt-5") == ModelInfo("openai", "gpt-5", Api.OPENAI, LOCAL)
    info = found.find("anthropic", "claude-opus-4-5")
    assert isinstance(info, ModelInfo)
    assert info.base_url == "https://api.anthropic.com"


@pytest.mark.parametrize(
    ("provider", "entry", "reason"),
    [
        ("nobody", LOOP, "no such provider: /agent/models.json has none of that name"),
        (
            "loop",
            LOOP,
            "no such model in /agent/models.json: the provider's models are m1 and m2",
        ),
        (
            "loop",
            replace(LOOP, models=()),
            "no such model in /agent/models.json: the provider's models are none",
        ),
        (
            "loop",
            ProviderEntry(api="openai-completions", models=(ModelEntry("m"),)),
            "/agent/models.json gives the provider no baseUrl",
        ),
        (
            "loop",
            ProviderEntry(base_url=LOCAL, models=(ModelEntry("m"),)),
            "/agent/models.json gives the provider no api",
        ),
        (
            "loop",
            replace(LOOP, api="openai-responses", models=(ModelEntry("m"),)),
            (
                "its api openai-responses is not spoken here: only openai-completions or "
                "anthropic-messages"
            ),
        ),
    ],
    ids=["provider", "model", "no models", "no address", "no api", "another api"],
)
def test_what_cannot_be_used_has_a_reason(provider: str, entry: ProviderEntry, reason: str) -> None:
    assert catalog(loop=entry).find(provider, "m") == reason


def test_all_providers_are_listed_once_the_user_s_own_first() -> None:
    found = catalog(loop=LOOP, openai=ProviderEntry())
    assert found.providers[:2] == ("loop", "openai")
    assert sorted(found.providers) == sorted({"loop", *KNOWN})


def test_headers_are_those_of_the_file() -> None:
    headers = {"X-Team": Secret("$TEAM")}
    assert catalog(loop=replace(LOOP, headers=headers)).headers("loop") == headers
    assert catalog().headers("loop") == {}
