"""Prices that the user states, and those of public lists."""

import pytest
from genai_prices.data_snapshot import find_provider_by_id, get_snapshot

from agents.models.catalog import KNOWN, ModelInfo
from agents.models.endpoint import Api
from agents.models.port import Usage
from agents.models.price import Price
from agents.models.price_list import look_up

MILLION = Usage(input_tokens=1_000_000)


def info(provider: str, id_: str, base_url: str = "http://127.0.0.1:1/v1") -> ModelInfo:
    return ModelInfo(provider, id_, Api.OPENAI, base_url)


def test_the_user_s_own_price_comes_before_any_list() -> None:
    own = ModelInfo("openai", "gpt-5", Api.OPENAI, "", price=Price(7, 1, 1, 1), context_tokens=9)
    listing = look_up(own)
    assert listing.price is not None
    assert listing.price(MILLION) == 7
    assert listing.context_tokens == 9


@pytest.mark.parametrize(
    "model",
    [
        info("anthropic", "claude-sonnet-4-5"),
        info("openai", "gpt-5"),
        info("openrouter", "anthropic/claude-sonnet-4.5"),
        info("groq", "llama-3.3-70b-versatile"),
        info("mine", "anthropic/claude-sonnet-4.5", "https://openrouter.ai/api/v1"),
    ],
    ids=["anthropic", "openai", "openrouter", "groq", "by address"],
)
def test_well_known_models_have_a_listed_price(model: ModelInfo) -> None:
    listing = look_up(model)
    assert listing.price is not None
    dollars = listing.price(MILLION)
    assert dollars is not None
    assert 0 < dollars < 1_000
    from_cache = listing.price(Usage(input_tokens=1_000_000, cache_read_tokens=1_000_000))
    assert from_cache is not None
    assert 0 < from_cache <= dollars


def test_a_listed_model_has_a_context() -> None:
    assert look_up(info("anthropic", "claude-sonnet-4-5")).context_tokens == 200_000


@pytest.mark.parametrize(
    "model",
    [
        info("openai", "no-such-model"),
        info("loop", "gpt-5"),
        info("my-openai", "gpt-5"),
    ],
    ids=["unknown model", "local server", "name that looks like a known one"],
)
def test_what_no_list_knows_has_no_price(model: ModelInfo) -> None:
    listing = look_up(model)
    assert listing.price is None
    assert listing.context_tokens is None


def test_a_server_that_counts_wrong_is_paid_for_what_it_counted() -> None:
    price = look_up(info("anthropic", "claude-sonnet-4-5")).price
    assert price is not None
    wrong, right = Usage(1, cache_read_tokens=1_000), Usage(1_000, cache_read_tokens=1_000)
    assert price(wrong) == price(right)


@pytest.mark.parametrize("provider", sorted(KNOWN))
def test_every_known_provider_is_known_to_the_lists(provider: str) -> None:
    assert find_provider_by_id(get_snapshot().providers, provider) is not None
