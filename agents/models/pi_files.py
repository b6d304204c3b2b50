"""Reads the files that Pi keeps its user's models and keys in.

They are Pi's files, so keys that mean nothing here are passed over. What is wrong in the others is
said in one sentence that names the file and the place, and never repeats a value: it may be a key.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, TypeVar
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    TypeAdapter,
    ValidationError,
)
from pydantic.alias_generators import to_camel

from agents.models.endpoint import Secret
from agents.models.price import Price
from engine.core.errors import UsageError
from engine.records.fields import Many
from engine.records.json_text import decode_json
from engine.records.request import RequestError
from engine.system.files import read_input

MODELS_FILE = "models.json"
AUTH_FILE = "auth.json"
API_KEY = "api_key"
MAX_FILE_BYTES = 4 << 20
T = TypeVar("T")


class FaultyFileError(UsageError):
    """A file of Pi's does not say what it must.

    Attributes:
        source: its path.
        problem: the place in it and what would be right there.
    """

    def __init__(self, source: str, problem: str) -> None:
        self.source = source
        self.problem = problem
        super().__init__(f"{source}: {problem}")


def _address(text: str) -> str:
    parts = urlsplit(text)
    is_plain = parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc
    if not is_plain or parts.query or parts.fragment or (parts.port or 1) < 1:
        raise ValueError("is no address")
    return text


# By the name of a key: what its value must be.
_RULES = {
    "providers": "an object of providers by their names",
    "baseUrl": "an http or https address without a user, a password or a query in it",
    "api": "the name of a protocol, such as openai-completions or anthropic-messages",
    "apiKey": "text: a key, or $NAME for a variable of the environment",
    "headers": "an object of texts by the names of headers",
    "models": "an array of models",
    "id": "the model's name, as text that is not empty",
    "contextWindow": "a whole number of tokens, at least 1",
    "maxTokens": "a whole number of tokens, at least 1",
    "reasoning": "true or false",
    "cost": "an object with the dollars for a million tokens of input and output",
    "input": "a number of dollars, from 0 to 1,000,000",
    "output": "a number of dollars, from 0 to 1,000,000",
    "cacheRead": "a number of dollars, from 0 to 1,000,000",
    "cacheWrite": "a number of dollars, from 0 to 1,000,000",
    "type": "api_key or oauth",
    "key": "text: a key, or $NAME for a variable of the environment",
}


class _Form(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="ignore",
        frozen=True,
        hide_input_in_errors=True,
        strict=True,
    )


_Address = Annotated[str, AfterValidator(_address)]
_Name = Annotated[str, Field(min_length=1)]
_Tokens = Annotated[int, Field(ge=1, le=10**12)]
_Dollars = Annotated[float, Field(ge=0, le=10**6)]


class _CostForm(_Form):
    input: _Dollars
    output: _Dollars
    cache_read: _Dollars | None = None
    cache_write: _Dollars | None = None


class _ModelForm(_Form):
    id: _Name
    api: _Name | None = None
    base_url: _Address | None = None
    reasoning: bool = False
    context_window: _Tokens | None = None
    max_tokens: _Tokens | None = None
    cost: _CostForm | None = None


class _ProviderForm(_Form):
    base_url: _Address | None = None
    api: _Name | None = None
    api_key: SecretStr | None = None
    headers: dict[str, SecretStr] | None = None
    models: Many[_ModelForm] = ()


class _ModelsForm(_Form):
    providers: dict[str, _ProviderForm] = Field(default_factory=dict)


class _LoginForm(_Form):
    type: str
    key: SecretStr | None = None


_MODELS = TypeAdapter(_ModelsForm)
_LOGINS = TypeAdapter(dict[str, _LoginForm])


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A model as `models.json` describes it; None is what it leaves out."""

    id: str
    api: str | None = None
    base_url: str | None = None
    reasoning: bool = False
    context_tokens: int | None = None
    max_output_tokens: int | None = None
    price: Price | None = None


@dataclass(frozen=True, slots=True)
class ProviderEntry:
    """A provider as `models.json` describes it; key and headers are not resolved yet."""

    base_url: str | None = None
    api: str | None = None
    key: Secret | None = None
    headers: Mapping[str, Secret] = field(default_factory=lambda: MappingProxyType({}))
    models: tuple[ModelEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelsFile:
    """What a `models.json` says; one that is not there says nothing."""

    source: str = MODELS_FILE
    providers: Mapping[str, ProviderEntry] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class AuthFile:
    """What an `auth.json` says: a key by the name of its provider, None where it is a login."""

    source: str = AUTH_FILE
    keys: Mapping[str, Secret | None] = field(default_factory=lambda: MappingProxyType({}))


def key_files(folder: Path | None) -> tuple[Path, ...]:
    """Return the files in the Pi agent directory that may hold keys, there or not.

    There are none where nobody knows the directory.
    """
    return () if folder is None else (folder / AUTH_FILE, folder / MODELS_FILE)


def read_models_file(folder: Path) -> ModelsFile:
    """Read the `models.json` in `folder`; blocks, so call it in a thread.

    Raises:
        FaultyFileError: it is there and does not say what it must.
    """
    source = str(folder / MODELS_FILE)
    content = _read(folder / MODELS_FILE)
    if content is None:
        return ModelsFile(source)
    form = _decode(_MODELS, content, source)
    return ModelsFile(source, {name: _provider(one) for name, one in form.providers.items()})


def read_auth_file(folder: Path) -> AuthFile:
    """Read the `auth.json` in `folder`; blocks, so call it in a thread.

    Raises:
        FaultyFileError: it is there and does not say what it must.
    """
    source = str(folder / AUTH_FILE)
    content = _read(folder / AUTH_FILE)
    if content is None:
        return AuthFile(source)
    keys: dict[str, Secret | None] = {}
    for name, login in _decode(_LOGINS, content, source).items():
        keys[name] = None
        if login.type == API_KEY:
            if login.key is None:
                raise FaultyFileError(source, _sentence((name, "key"), "missing"))
            keys[name] = _secret(login.key)
    return AuthFile(source, keys)


def _read(path: Path) -> dict[str, object] | None:
    """Return what the JSON file at `path` holds; None when there is no such file."""
    try:
        data = read_input(path, MAX_FILE_BYTES)
    except UsageError as error:
        if isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
            return None
        raise FaultyFileError(str(path), str(error).removeprefix(f"{path} ")) from error
    try:
        found = decode_json(data, str(path))
    except RequestError as error:
        raise FaultyFileError(str(path), f"{error.fault}; mend it there") from error
    if not isinstance(found, dict):
        raise FaultyFileError(
            str(path), "it must hold an object, `{}` when there is nothing to say"
        )
    return found


def _decode(adapter: TypeAdapter[T], content: object, source: str) -> T:
    try:
        return adapter.validate_python(content)
    except ValidationError as error:
        # Without the values: one of them may be a key.
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise FaultyFileError(source, _sentence(first["loc"], first["type"])) from None


def _sentence(place: tuple[int | str, ...], problem: str) -> str:
    last = place[-1]
    rule = _RULES.get(str(last), "text" if "headers" in place else "an object")
    named = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in place)
    fault = "is missing; it must be" if problem == "missing" else "must be"
    return f"{named.lstrip('.')} {fault} {rule}"


def _provider(form: _ProviderForm) -> ProviderEntry:
    return ProviderEntry(
        base_url=form.base_url,
        api=form.api,
        key=None if form.api_key is None else _secret(form.api_key),
        headers={name: _secret(value) for name, value in (form.headers or {}).items()},
        models=tuple(_model(one) for one in form.models),
    )


def _model(form: _ModelForm) -> ModelEntry:
    return ModelEntry(
        id=form.id,
        api=form.api,
        base_url=form.base_url,
        reasoning=form.reasoning,
        context_tokens=form.context_window,
        max_output_tokens=form.max_tokens,
        price=None if form.cost is None else _price(form.cost),
    )


def _price(form: _CostForm) -> Price:
    # Who leaves the cache out is charged for it like for any other input.
    read = form.input if form.cache_read is None else form.cache_read
    write = form.input if form.cache_write is None else form.cache_write
    return Price(form.input, form.output, read, write)


def _secret(value: SecretStr) -> Secret:
    return Secret(value.get_secret_value())
