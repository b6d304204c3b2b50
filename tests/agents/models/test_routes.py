"""Ways to models, from the user's files to an open connection."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from agents.models.pi_files import FaultyFileError
from agents.models.port import AnswerEnded, TextPiece, UserMessage
from agents.models.routes import Route, open_routes
from engine.core.spec import Thinking
from tests.support.clock import FakeClock
from tests.support.model_server import ModelRequest, Spoken, open_model_server

KEY = "sk-planted-0123456789"


def home(folder: Path, providers: Mapping[str, object], **logins: object) -> dict[str, str]:
    """Write the files of a user and return their environment."""
    (folder / "models.json").write_text(json.dumps({"providers": providers}))
    (folder / "auth.json").write_text(json.dumps(logins))
    return {"PI_CODING_AGENT_DIR": str(folder)}


def served_at(url: str, api: str, *ids: str) -> dict[str, object]:
    """Return a provider as `models.json` describes it."""
    return {"baseUrl": url, "api": api, "apiKey": "$LOOP_KEY", "models": [{"id": i} for i in ids]}


async def test_models_of_both_apis_answer_over_one_client_each(tmp_path: Path) -> None:
    def answer(request: ModelRequest) -> Spoken:
        return Spoken((TextPiece(f"{request.body['model']} on {request.path}"),))

    async with open_model_server(answer) as server:
        providers = {
            "one": served_at(server.anthropic_url, "anthropic-messages", "a", "b"),
            "two": served_at(server.openai_url, "openai-completions", "c"),
        }
        environment = {**home(tmp_path, providers), "LOOP_KEY": KEY}
        async with open_routes(environment, FakeClock()) as routes:
            said = []
            for provider, id_ in (("one", "a"), ("one", "b"), ("two", "c"), ("one", "a")):
                route = await routes.find(provider, id_)
                assert isinstance(route, Route)
                assert KEY not in repr(route)
                model = route.open(Thinking.OFF)
                assert (model.provider, model.id) == (provider, id_)
                async with model.stream("", (UserMessage("hello"),), ()) as stream:
                    pieces = [piece async for piece in stream]
                assert isinstance(pieces[-1], AnswerEnded)
                said += [piece.text for piece in pieces if isinstance(piece, TextPiece)]
            assert await routes.find("one", "a") is await routes.find("one", "a")
            assert len(routes._openers) == 2
        keys = {request.headers["authorization"] for request in server.requests}
    assert said == [
        "a on /v1/messages",
        "b on /v1/messages",
        "c on /v1/chat/completions",
        "a on /v1/messages",
    ]
    assert keys == {f"Bearer {KEY}"}


async def test_a_route_knows_price_and_context(tmp_path: Path) -> None:
    model = {"id": "m", "contextWindow": 9_000, "cost": {"input": 1, "output": 1}}
    loop = {"baseUrl": "http://127.0.0.1:1", "api": "anthropic-messages", "models": [model]}
    environment = home(tmp_path, {"loop": loop}, loop={"type": "api_key", "key": KEY})
    async with open_routes({**environment, "ANTHROPIC_API_KEY": KEY}, FakeClock()) as routes:
        mine = await routes.find("loop", "m")
        known = await routes.find("anthropic", "claude-sonnet-4-5")
        unknown = await routes.find("anthropic", "claude-nobody-knows")
    assert isinstance(mine, Route)
    assert isinstance(known, Route)
    assert isinstance(unknown, Route)
    assert (mine.info.context_tokens, mine.has_price) == (9_000, True)
    assert (known.info.context_tokens, known.has_price) == (200_000, True)
    assert (unknown.info.context_tokens, unknown.has_price) == (None, False)


@pytest.mark.parametrize(
    ("provider", "id_", "reason"),
    [
        ("nobody", "m", "no such provider"),
        ("loop", "m", "its apiKey in models.json is the variable LOOP_KEY, which is not set"),
        ("loop", "n", "no such model"),
        ("openai", "gpt-5", "no key"),
        ("headed", "m", "its header 'X' in models.json is a command, which is not run here"),
    ],
)
async def test_what_cannot_be_reached_has_a_reason(
    tmp_path: Path, provider: str, id_: str, reason: str
) -> None:
    loop = served_at("http://127.0.0.1:1", "openai-completions", "m")
    headed = {**loop, "apiKey": KEY, "headers": {"X": "!ls"}}
    environment = home(tmp_path, {"loop": loop, "headed": headed})
    async with open_routes(environment, FakeClock()) as routes:
        found = await routes.find(provider, id_)
    assert isinstance(found, str)
    assert found.startswith(reason)


async def test_a_faulty_file_is_not_passed_over(tmp_path: Path) -> None:
    environment = home(tmp_path, {"loop": {"models": [{}]}})
    async with open_routes({**environment, "OPENAI_API_KEY": KEY}, FakeClock()) as routes:
        with pytest.raises(FaultyFileError, match=r"providers\.loop\.models\[0\]\.id is missing"):
            await routes.find("openai", "gpt-5")


async def test_without_a_home_the_environment_alone_counts() -> None:
    async with open_routes({"ANTHROPIC_API_KEY": KEY}, FakeClock()) as routes:
        assert isinstance(await routes.find("anthropic", "claude-sonnet-4-5"), Route)
        assert isinstance(await routes.find("openai", "gpt-5"), str)


async def test_a_proxy_that_cannot_be_used_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "nonsense://127.0.0.1:1")
    async with open_routes({"ANTHROPIC_API_KEY": KEY}, FakeClock()) as routes:
        found = await routes.find("anthropic", "claude-sonnet-4-5")
    assert isinstance(found, str)
    assert found.startswith("no connection can be prepared: ")
