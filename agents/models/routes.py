"""Ways to models: found in the user's files, opened when first needed, closed together.

A provider's library takes seconds to load, and that happens while a route is found, in a thread:
no agent waits for it later.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace

import trio

from agents.models.catalog import Catalog, ModelInfo, read_catalog
from agents.models.endpoint import Api, Endpoint, Secret
from agents.models.keys import find_headers, find_key
from agents.models.logins import find_secrets, login_fault
from agents.models.port import Model, Usage
from agents.models.price import Pricer
from agents.models.price_list import look_up
from agents.models.stream import StreamedModel, open_client
from engine.core.spec import Thinking
from engine.system.clock import Clock


@dataclass(frozen=True, slots=True)
class Route:
    """An open way to a model.

    Attributes:
        info: what is known of the model.
        has_price: whether its answers' cost is known.
    """

    info: ModelInfo
    has_price: bool
    _open: Callable[[Thinking], Model] = field(repr=False)

    def open(self, thinking: Thinking) -> Model:
        """Return the model, asked to think that much, for as long as its routes are open."""
        return self._open(thinking)


@dataclass(frozen=True, slots=True)
class PiRoute:
    """A model that a Pi can ask by itself.

    Attributes:
        price: what answers cost of which Pi does not know it; None where nobody knows.
        has_price: whether somebody knows before the first one.
        secrets: what it shows to the provider, who may repeat it.
    """

    price: Pricer = field(repr=False)
    has_price: bool
    secrets: tuple[Secret, ...] = ()


_Opener = Callable[[ModelInfo, Pricer, Thinking], Model]


class Routes:
    """Finds routes; each file is read once, and each address of a provider has one client."""

    def __init__(
        self, environment: Mapping[str, str], clock: Clock, clients: AsyncExitStack
    ) -> None:
        self._environment = environment
        self._clock = clock
        self._clients = clients
        self._catalog: Catalog | None = None
        self._openers: dict[tuple[str, str, Api], _Opener] = {}
        self._found: dict[tuple[str, str], Route | str] = {}

    async def find(self, provider: str, id_: str) -> Route | str:
        """Return a route to a model, or why there is none, as a phrase that names no secret.

        Raises:
            FaultyFileError: `models.json` or `auth.json` does not say what it must.
        """
        if (provider, id_) not in self._found:
            self._found[provider, id_] = await self._find(provider, id_)
        return self._found[provider, id_]

    async def find_for_pi(self, provider: str, id_: str, shown: Mapping[str, str]) -> PiRoute | str:
        """Return how a Pi that runs an agent comes to a model, or why it cannot, as a phrase.

        Whether there is such a model is for Pi to say: it knows more providers than we do.

        Args:
            provider: of the model.
            id_: of the model.
            shown: the environment that the agent's programs see.

        Raises:
            FaultyFileError: `models.json` or `auth.json` does not say what it must.
        """
        catalog = await self._read()
        fault = login_fault(provider, catalog, shown=shown, environment=self._environment)
        if fault is not None:
            return fault
        known = await self.price(provider, id_)
        secrets = find_secrets(provider, catalog, shown)
        return PiRoute(known or unknown_price, known is not None, secrets)

    async def price(self, provider: str, id_: str) -> Pricer | None:
        """Return what answers of a model cost, by the user's files or public lists.

        Raises:
            FaultyFileError: `models.json` or `auth.json` does not say what it must.
        """
        info = (await self._read()).find(provider, id_)
        if isinstance(info, str):
            return None
        return (await trio.to_thread.run_sync(look_up, info)).price

    async def _read(self) -> Catalog:
        if self._catalog is None:
            self._catalog = await trio.to_thread.run_sync(read_catalog, self._environment)
        return self._catalog

    async def _find(self, provider: str, id_: str) -> Route | str:
        catalog = await self._read()
        info = catalog.find(provider, id_)
        if isinstance(info, str):
            return info
        found = find_key(provider, catalog, self._environment)
        if isinstance(found, str):
            return found
        headers = find_headers(catalog.headers(provider), self._environment)
        if isinstance(headers, str):
            return headers
        endpoint = Endpoint(provider, info.api, info.base_url, found.key, headers)
        try:
            opener = await self._opener(endpoint)
        except (ImportError, OSError, ValueError) as error:
            # Certificates or a proxy of the environment that cannot be used, for example.
            return f"no connection can be prepared: {error}"
        listing = await trio.to_thread.run_sync(look_up, info)
        known = replace(info, context_tokens=listing.context_tokens)
        price = listing.price or unknown_price
        return Route(
            info=known,
            has_price=listing.price is not None,
            _open=lambda thinking: opener(known, price, thinking),
        )

    async def _opener(self, endpoint: Endpoint) -> _Opener:
        """Return what makes models of `endpoint`, with the one client that it has."""
        place = (endpoint.provider, endpoint.base_url, endpoint.api)
        if place not in self._openers:
            self._openers[place] = await self._connect(endpoint)
        return self._openers[place]

    async def _connect(self, endpoint: Endpoint) -> _Opener:
        client = await self._clients.enter_async_context(open_client(endpoint))
        return lambda info, price, thinking: StreamedModel(
            client, info, thinking, endpoint=endpoint, price=price, clock=self._clock
        )


@asynccontextmanager
async def open_routes(environment: Mapping[str, str], clock: Clock) -> AsyncIterator[Routes]:
    """Let routes be found inside the block; what was opened for them is closed with it.

    Args:
        environment: the user's: keys, and the folder of Pi's files.
        clock: for what providers say about when to come back.
    """
    async with AsyncExitStack() as clients:
        yield Routes(environment, clock, clients)


def unknown_price(_: Usage) -> float | None:
    """Return None: nobody knows."""
    return None
