"""What tokens cost, as a value."""

from collections.abc import Callable
from dataclasses import dataclass

from agents.models.port import Usage

Pricer = Callable[[Usage], float | None]
_PER_TOKENS = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars for a million tokens of each sort.

    Attributes:
        input: of what is sent and neither comes from the provider's cache nor goes into it.
    """

    input: float
    output: float
    cache_read: float
    cache_write: float

    def of(self, usage: Usage) -> float:
        """Return the dollars that `usage` costs."""
        cached = usage.cache_read_tokens + usage.cache_write_tokens
        parts = (
            max(0, usage.input_tokens - cached) * self.input,
            usage.output_tokens * self.output,
            usage.cache_read_tokens * self.cache_read,
            usage.cache_write_tokens * self.cache_write,
        )
        return sum(parts) / _PER_TOKENS
