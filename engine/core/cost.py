"""Dollars, as sums of binary fractions hold them."""

# Sums of floats are off by far less than this, and no price is anywhere near as small.
_TOLERANCE_USD = 1e-9


def is_over(spent_usd: float, limit_usd: float) -> bool:
    """Whether more was spent than the limit allows; the noise of a sum is never meant."""
    return spent_usd > limit_usd + _TOLERANCE_USD
