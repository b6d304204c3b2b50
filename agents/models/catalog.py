"""Which models there are, where they are served and what they can take.

What the user's `models.json` says comes first; beyond it a few providers are known by their names.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from agents.models.endpoint import Api, Secret
from agents.models.pi_files import (
    AuthFile,
    ModelEntry,
    ModelsFile,
    ProviderEntry,
    read_auth_file,
    read_models_file,
)
from agents.models.price import Price
from engine.core.agent_dir import agent_dir
from engine.core.quote import name_list

# What Pi takes a model to be of which `models.json` does not say more.
DEFAULT_CONTEXT_TOKENS = 128_000
DEFAULT_OUTPUT_TOKENS = 16_384


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model and what is known of it.

    Attributes:
        context_tokens: how much a conversation and its next answer may have; None when unknown.
        max_output_tokens: how long one answer may be; None when unknown.
        reasoning: whether it can be told how much to think.
        price: what the user says it costs; None when only public lists may know.
    """

    provider: str
    id: str
    api: Api
    base_url: str
    context_tokens: int | None = None
    max_output_tokens: int | None = None
    reasoning: bool = True
    price: Price | None = None


@dataclass(frozen=True, slots=True)
class KnownProvider:
    """A provider that needs no entry in `models.json`.

    Attributes:
        variable: the environment variable that its users keep their key in.
    """

    api: Api
    base_url: str
    variable: str


KNOWN: Mapping[str, KnownProvider] = MappingProxyType(
    {
        "anthropic": KnownProvider(Api.ANTHROPIC, "https://api.anthropic.com", "ANTHROPIC_API_KEY"),
        "openai": KnownProvider(Api.OPENAI, "https://api.openai.com/v1", "OPENAI_API_KEY"),
        "openrouter": KnownProvider(
            Api.OPENAI, "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"
        ),
        "groq": KnownProvider(Api.OPENAI, "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
        "cerebras": KnownProvider(Api.OPENAI, "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
        "xai": KnownProvider(Api.OPENAI, "https://api.x.ai/v1", "XAI_API_KEY"),
        "deepseek": KnownProvider(Api.OPENAI, "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    }
)


@dataclass(frozen=True, slots=True)
class Catalog:
    """What the user's files say, and what is known without them."""

    models: ModelsFile = field(default_factory=ModelsFile)
    auth: AuthFile = field(default_factory=AuthFile)

    @property
    def providers(self) -> tuple[str, ...]:
        """The names of all providers, those that the user wrote down first."""
        return tuple(dict.fromkeys((*self.models.providers, *KNOWN)))

    def headers(self, provider: str) -> Mapping[str, Secret]:
        """Return the headers that `models.json` gives a provider, as they stand there."""
        entry = self.models.providers.get(provider)
        return {} if entry is None else entry.headers

    def find(self, provider: str, id_: str) -> ModelInfo | str:
        """Return what is known of a model, or why it cannot be used, as a phrase."""
        entry = self.models.providers.get(provider)
        known = KNOWN.get(provider)
        if entry is None:
            if known is None:
                return f"no such provider: {self.models.source} has none of that name"
            return ModelInfo(provider, id_, known.api, known.base_url)
        model = next((each for each in entry.models if each.id == id_), None)
        if model is None and known is None:
            names = name_list([each.id for each in entry.models]) or "none"
            return f"no such model in {self.models.source}: the provider's models are {names}"
        return self._info(provider, id_, entry, model)

    def _info(
        self, provider: str, id_: str, entry: ProviderEntry, model: ModelEntry | None
    ) -> ModelInfo | str:
        known = KNOWN.get(provider)
        said = (model and model.base_url) or entry.base_url
        base_url = said or (known.base_url if known else None)
        if base_url is None:
            return f"{self.models.source} gives the provider no baseUrl"
        spoken = (model and model.api) or entry.api or (known.api.value if known else None)
        if spoken is None:
            return f"{self.models.source} gives the provider no api"
        try:
            api = Api(spoken)
        except ValueError:
            usable = name_list([each.value for each in Api], last="or")
            return f"its api {spoken} is not spoken here: only {usable}"
        if model is None:
            return ModelInfo(provider, id_, api, base_url)
        return ModelInfo(
            provider,
            id_,
            api,
            base_url,
            context_tokens=model.context_tokens or DEFAULT_CONTEXT_TOKENS,
            max_output_tokens=model.max_output_tokens or DEFAULT_OUTPUT_TOKENS,
            reasoning=model.reasoning,
            price=model.price,
        )


def read_catalog(environment: Mapping[str, str]) -> Catalog:
    """Return what the user's files say of models and keys; blocks, so call it in a thread.

    Raises:
        FaultyFileError: one of them does not say what it must.
    """
    folder = agent_dir(environment)
    if folder is None:
        return Catalog()
    return Catalog(read_models_file(Path(folder)), read_auth_file(Path(folder)))
