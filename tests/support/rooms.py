"""Room for agents, as a limiter would find it."""

from engine.core.limiter import Room

# More than any test of decisions needs, for tasks that nobody assigned to a provider.
ROOMY = Room(total=1_000, free={"": 1_000})
