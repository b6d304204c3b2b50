"""Models of every provider, connected to a loopback server, and what they answered."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field

from agents.models.catalog import ModelInfo
from agents.models.endpoint import Api, Endpoint, Secret
from agents.models.port import (
    AnswerEnded,
    AnswerPiece,
    Model,
    TextPiece,
    ThinkingPiece,
    ThoughtEnded,
    UserMessage,
)
from agents.models.price import Price
from agents.models.stream import StreamedModel, open_client
from engine.core.spec import Thinking
from tests.support.clock import FakeClock
from tests.support.model_server import ModelServer

KEY = "sk-planted-7f3e9a"
PRICE = Price(input=1.0, output=2.0, cache_read=0.1, cache_write=1.25)


@dataclass(frozen=True)
class Setting:
    """What a test changes about a model."""

    key: str = KEY
    headers: dict[str, Secret] = field(default_factory=dict)
    info: ModelInfo | None = None
    thinking: Thinking = Thinking.OFF


def endpoint_of(api: Api, url: str, setting: Setting) -> Endpoint:
    return Endpoint("loop", api, url, Secret(setting.key), setting.headers)


def info_of(api: Api, url: str, **changes: object) -> ModelInfo:
    return ModelInfo("loop", "m1", api, url, 32_000, 4_000, **changes)  # type: ignore[arg-type]  # a test's own changes


def open_openai_model(
    server: ModelServer, setting: Setting = Setting()
) -> AbstractAsyncContextManager[StreamedModel]:
    """Open a model that asks `server` in OpenAI's dialect."""
    return _open(Api.OPENAI, server.openai_url, setting)


def open_anthropic_model(
    server: ModelServer, setting: Setting = Setting()
) -> AbstractAsyncContextManager[StreamedModel]:
    """Open a model that asks `server` in Anthropic's dialect."""
    return _open(Api.ANTHROPIC, server.anthropic_url, setting)


@asynccontextmanager
async def _open(api: Api, url: str, setting: Setting) -> AsyncIterator[StreamedModel]:
    endpoint = endpoint_of(api, url, setting)
    info = setting.info or info_of(api, url, reasoning=False)
    async with open_client(endpoint) as client:
        yield StreamedModel(
            client, info, setting.thinking, endpoint=endpoint, price=PRICE.of, clock=FakeClock()
        )


OpenModel = Callable[[ModelServer, Setting], AbstractAsyncContextManager[Model]]
OPENERS: dict[str, OpenModel] = {
    "openai": open_openai_model,
    "anthropic": open_anthropic_model,
}


async def answer_of(model: Model) -> list[AnswerPiece]:
    """Return a whole answer, pieces of one text put together and ends of thoughts left out."""
    async with model.stream("Be brief.", (UserMessage("Hello."),), ()) as pieces:
        return joined([piece async for piece in pieces])


def joined(pieces: Iterable[AnswerPiece]) -> list[AnswerPiece]:
    """Return `pieces` with neighbours of one kind put together and ends of thoughts left out."""
    whole: list[AnswerPiece] = []
    for piece in pieces:
        last = whole[-1] if whole else None
        match last, piece:
            case _, ThoughtEnded():
                pass
            case TextPiece(), TextPiece():
                whole[-1] = TextPiece(last.text + piece.text)
            case ThinkingPiece(), ThinkingPiece():
                whole[-1] = ThinkingPiece(last.text + piece.text)
            case _:
                whole.append(piece)
    return whole


def priced(end: AnswerEnded) -> AnswerEnded:
    """Return `end` with what `PRICE` makes of it."""
    usage = end.usage
    return AnswerEnded(
        end.stop_reason,
        type(usage)(
            usage.input_tokens,
            usage.output_tokens,
            PRICE.of(usage),
            usage.cache_read_tokens,
            usage.cache_write_tokens,
        ),
    )
