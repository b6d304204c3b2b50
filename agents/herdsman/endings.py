"""Which agents of a session are being ended, and what stands in the way of it.

All of a session's callers in one process share this, from wherever it calls.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agents.herdsman.identity import GenerationId


@dataclass(frozen=True, slots=True)
class Endings:
    """What is known of ends, by generations.

    Attributes:
        closed: those that are closed, or are being closed now; kept by whoever closes them.
        cleanup_errors: why records of some that are gone could not be removed; kept by whoever
            tries to remove them.
        deliveries: those whose results are being delivered, or that are being ended then, each with
            whether there is more to look at; kept by whoever delivers.
        delivery_errors: why results are not delivered, or their agents not gone.
    """

    closed: set[GenerationId] = field(default_factory=set)
    cleanup_errors: dict[GenerationId, str] = field(default_factory=dict)
    deliveries: dict[GenerationId, bool] = field(default_factory=dict)
    delivery_errors: dict[GenerationId, str] = field(default_factory=dict)

    @property
    def left_over(self) -> Mapping[GenerationId, str]:
        """Why generations that are over, or were closed, are still here."""
        return self.delivery_errors | self.cleanup_errors

    @property
    def is_delivering(self) -> bool:
        """Whether a result is on its way, or its agent is just being ended, without a fault."""
        return not self.deliveries.keys() <= self.delivery_errors.keys()
