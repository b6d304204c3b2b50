"""The models that the program of a session lends to the agents of one run."""

from dataclasses import dataclass, field
from typing import Final

from agents.models.coordinator import CoordinatedModel, Coordinator, Listing
from agents.models.port import Model
from agents.models.price import Pricer
from agents.models.routes import Routes, unknown_price
from engine.core.spec import ModelChoice
from pinata.work.context import Context

OUTLIVED: Final = "the session lends no model to a run that outlives it"


@dataclass(frozen=True, slots=True)
class LentModel:
    """A model that the session's program asks, for as long as it is there.

    Attributes:
        has_price: whether its answers' cost is known.
    """

    has_price: bool
    _coordinator: Coordinator = field(repr=False)
    _choice: ModelChoice
    _listing: Listing
    _price: Pricer = field(repr=False)

    def open(self) -> Model:
        """Return the model for one attempt."""
        choice = self._choice
        name = (choice.provider, choice.id)
        return CoordinatedModel(
            self._coordinator, name, choice.thinking, self._listing, self._price
        )


@dataclass(frozen=True, slots=True)
class LentModels:
    """Finds what the session lends; each model is asked for once in a run.

    Attributes:
        coordinator: the way to the session's program; None where there is no session.
        survives: whether the run goes on without its session.
    """

    coordinator: Coordinator | None
    survives: bool = False
    _listings: dict[tuple[str, str], Listing | str] = field(default_factory=dict)

    @classmethod
    def of(cls, context: Context, *, survives: bool) -> "LentModels":
        """Return what is lent to a run of `context`."""
        return cls(context.coordinator, survives)

    async def find(self, choice: ModelChoice, routes: Routes) -> LentModel | str:
        """Return a model, or why it is not lent, as a phrase; empty where there is no session.

        Args:
            choice: the model.
            routes: know prices that the session's program does not.

        Raises:
            FaultyFileError: the program knows no price, and the user's files cannot be read.
        """
        if self.coordinator is None:
            return ""
        if self.survives:
            return OUTLIVED
        name = (choice.provider, choice.id)
        if name not in self._listings:
            self._listings[name] = await self.coordinator.find(*name)
        listing = self._listings[name]
        if isinstance(listing, str):
            return f"by the session, {listing}"
        price = None if listing.has_price else await routes.price(*name)
        has_price = listing.has_price or price is not None
        return LentModel(has_price, self.coordinator, choice, listing, price or unknown_price)
