"""Where a model's provider is reached, and the secrets that open its door."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType


class Api(Enum):
    """The protocol that an address speaks; the values are the words of `models.json`."""

    OPENAI = "openai-completions"
    ANTHROPIC = "anthropic-messages"


@dataclass(frozen=True, slots=True)
class Secret:
    """A text that shows up nowhere by accident: whoever needs it has to ask for it."""

    _text: str = field(repr=False)

    def reveal(self) -> str:
        """Return the text itself; never log it, store it or hand it to a program."""
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address and what it wants to be shown.

    Attributes:
        provider: the name that choices of models use for it.
        base_url: http or https, without a user or a password in it.
        key: what stands for the user; it is empty where none is asked for.
        headers: sent with every request, besides those of the protocol.
    """

    provider: str
    api: Api
    base_url: str
    key: Secret
    headers: Mapping[str, Secret] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def secrets(self) -> tuple[str, ...]:
        """All that must be struck out of a text before anybody sees it."""
        return tuple(one.reveal() for one in (self.key, *self.headers.values()) if one)
