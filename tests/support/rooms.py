"""Room for agents, as a limiter would find it."""

from engine.core.limiter import Limiter, Room

# More than any test of decisions needs, for tasks that nobody assigned to a provider.
ROOMY = Room(total=1_000, free={"": 1_000})


def grown_limiter(provider: str, capacity: int) -> Limiter:
    """Return a limiter whose `provider` has answered so well that so many agents may work."""
    limiter = Limiter(capacity)
    for _ in range(10 * capacity):
        limiter.answered(provider)
    return limiter


def has_room(limiter: Limiter, provider: str) -> bool:
    """Return whether one more agent of `provider` may start."""
    room = limiter.room((provider,))
    return room.total > 0 and room.free[provider] > 0
