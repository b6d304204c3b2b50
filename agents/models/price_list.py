"""What answers of a model cost, and what else public lists know of it.

The lists come with the `genai-prices` library and are as old as it; nothing is fetched.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agents.models.catalog import KNOWN, ModelInfo
from agents.models.port import Usage
from agents.models.price import Pricer

if TYPE_CHECKING:
    from genai_prices.types import PriceCalculation


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
    import genai_prices  # noqa: PLC0415 - half a second, paid where nobody stated a price

    def calculate(usage: Usage) -> "PriceCalculation":
        cached = usage.cache_read_tokens + usage.cache_write_tokens
        counted = genai_prices.Usage(
            # A server may count wrong, which the library takes for a mistake of ours.
            input_tokens=max(usage.input_tokens, cached),
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_tokens,
        )
        # Under a name of its own a provider is known by its address; a local server is not.
        if info.provider in KNOWN:
            return genai_prices.calc_price(counted, info.id, provider_id=info.provider)
        return genai_prices.calc_price(counted, info.id, provider_api_url=info.base_url)

    def price(usage: Usage) -> float:
        return float(calculate(usage).total_price)

    try:
        context_tokens = calculate(Usage()).model.context_window
    except LookupError:
        return Listing(None, info.context_tokens)
    return Listing(price, info.context_tokens or context_tokens)
