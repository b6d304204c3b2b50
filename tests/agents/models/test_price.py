"""What tokens cost."""

import pytest

from agents.models.port import Usage
from agents.models.price import Price

PRICE = Price(input=3, output=15, cache_read=0.3, cache_write=3.75)


@pytest.mark.parametrize(
    ("usage", "dollars"),
    [
        (Usage(), 0),
        (Usage(input_tokens=1_000_000), 3),
        (Usage(output_tokens=1_000_000), 15),
        (Usage(input_tokens=1_000_000, cache_read_tokens=1_000_000), 0.3),
        (Usage(input_tokens=1_000_000, cache_write_tokens=1_000_000), 3.75),
        (Usage(1_000, 100, None, 600, 300), (100 * 3 + 100 * 15 + 600 * 0.3 + 300 * 3.75) / 1e6),
        (Usage(input_tokens=5, cache_read_tokens=1_000_000), 0.3),
    ],
    ids=["nothing", "input", "output", "read", "written", "all", "more cached than sent"],
)
def test_each_sort_of_token_has_its_price(usage: Usage, dollars: float) -> None:
    assert PRICE.of(usage) == pytest.approx(dollars)
