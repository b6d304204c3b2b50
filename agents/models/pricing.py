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
    # Under a name of its own a provider is recognised by its address, a local server by neither.
    is_known = info.provider in KNOWN
    where = {"provider_id" if is_known else "provider_api_url": _key_of(info, is_known)}
    try:
        priced = library.calc_price(_library_usage(library, Usage()), info.id, **where)
    except LookupError:
        return Listing(None, info.context_tokens)

    def price(usage: Usage) -> float | None:
        try:
            priced = library.calc_price(_library_usage(library, usage), info.id, **where)
        except (LookupError, ValueError):
            return None
        return float(priced.total_price)

    return Listing(price, info.context_tokens or priced.model.context_window)


def _key_of(info: ModelInfo, is_known: bool) -> str:
    return info.provider if is_known else info.base_url


def _library_usage(library: Any, usage: Usage) -> Any:
    return library.Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )
