"""What answers of a model cost, and what else public lists know of it.

The lists come with the `genai-prices` library and are as old as it; nothing is fetched.
"""

import importlib
from dataclasses import dataclass
from typing import Any

from agents.models.catalog import KNOWN, ModelInfo
from agents.models.port import Usage
from agents.models.price import Pricer


@dataclass(frozen=True, slots=True)
class Listing:
    """What is known of a model that `models.json` need not say.

    Attributes:
        price: returns dollars; None when the price is unknown.
        context_tokens: None when unknown.
    """

    price: Pricer | None = None
    context_tokens: int | None = None


def look_up(info: ModelInfo) -> Listing:
    """Return the price of a model, the user's own before a listed one, and its context.

    Blocks, the first time for about half a second, so call it in a thread.
    """
    if info.price is not None:
        return Listing(info.price.of, info.context_tokens)
    library = importlib.import_module("genai_prices")
    # Under a name of its own a provider is recognised by its address; a local server is unknown.
    is_known = info.provider in KNOWN
    where = {"provider_id": info.provider} if is_known else {"provider_api_url": info.base_url}

    def calculate(usage: Usage) -> Any:  # noqa: ANN401 - the library is loaded too late for a type
        cached = usage.cache_read_tokens + usage.cache_write_tokens
        counted = library.Usage(
            # A server may count wrong, which the library takes for a mistake of ours.
            input_tokens=max(usage.input_tokens, cached),
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_tokens,
        )
        return library.calc_price(counted, info.id, **where)

    def price(usage: Usage) -> float:
        return float(calculate(usage).total_price)

    try:
        context_tokens = calculate(Usage()).model.context_window
    except LookupError:
        return Listing(None, info.context_tokens)
    return Listing(price, info.context_tokens or context_tokens)
