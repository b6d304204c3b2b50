import json
import logging
import sys
from pathlib import Path

import pytest
import trio
import trio.testing

from agents.models.endpoint import Secret
from agents.models.port import (
    AnswerEnded,
    AnswerFailed,
    StopReason,
    TextPiece,
    Trouble,
    Usage,
    UserMessage,
)
from engine.system.process import run
from tests.support.model_dialects import Refusal
from tests.support.model_server import (
    After,
    RawAnswer,
    Spoken,
    one_after_another,
    open_model_server,
)
from tests.support.models import KEY, Setting, answer_of, open_openai_model
from tests.support.programs import spec

ROOT = Path(__file__).resolve().parents[3]
HEADER_KEY = "hk-planted-90c1"
DONE = b"data: [DONE]\n\n"


def chunk(finish: str | None = None, **delta: object) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


async def test_a_request_shows_the_key_and_nothing_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody-else")
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "sk-of-an-admin")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-1")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "Authorization: Bearer sk-other\nX-Other: 1")
    setting = Setting(headers={"X-Title": Secret("pinata")})
    async with (
        open_model_server(one_after_another()) as server,
        open_openai_model(server, setting) as model,
    ):
        await answer_of(model)
    (request,) = server.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["x-title"] == "pinata"
    assert request.headers["accept-encoding"] == "identity"
    said = str(request.headers)
    assert not [
        word for word in ("sk-of", "sk-other", "org-1", "proj-1", "x-other") if word in said
    ]


@pytest.mark.slow
async def test_the_library_is_not_loaded_before_a_client_is_opened() -> None:
    loaded = "{'openai', 'anthropic', 'httpx2', 'agents.models.openai_client'} & set(sys.modules)"
    code = f"import sys, agents.models.stream; print({loaded})"
    exit_ = await run(spec((sys.executable, "-c", code), cwd=ROOT))
    assert exit_.stdout.decode().strip() == "set()"


async def test_a_model_says_what_it_is() -> None:
    async with (
        open_model_server(one_after_another()) as server,
        open_openai_model(server) as model,
    ):
        assert (model.provider, model.id, model.context_tokens) == ("loop", "m1", 32_000)


async def test_an_answer_may_trickle_in_byte_by_byte() -> None:
    stream = chunk(content="hä") + chunk(content="llo") + chunk("stop") + DONE
    trickle = RawAnswer([stream[place : place + 1] for place in range(len(stream))])
    async with (
        open_model_server(one_after_another(trickle)) as server,
        open_openai_model(server) as model,
    ):
        assert (await answer_of(model))[0] == TextPiece("hällo")


async def test_a_server_that_wants_no_key_can_be_asked() -> None:
    async with (
        open_model_server(one_after_another(Spoken((TextPiece("hi"),)))) as server,
        open_openai_model(server, Setting(key="")) as model,
    ):
        assert (await answer_of(model))[0] == TextPiece("hi")


@pytest.mark.parametrize(
    "answer",
    [
        Refusal(401, f"incorrect key {KEY} or {HEADER_KEY}"),
        RawAnswer((KEY.encode(),), status=502, headers={"Content-Type": "text/plain"}),
        RawAnswer((f'data: {{"error": {{"message": "bad {KEY}"}}}}\n\n'.encode(),)),
        RawAnswer((f"data: {KEY}\n\n".encode(),)),
        RawAnswer((KEY.encode(),), headers={"Content-Type": f"text/{HEADER_KEY}"}),
        RawAnswer((b"x",), headers={"Content-Encoding": HEADER_KEY}),
    ],
    ids=["refused", "plain text", "in the stream", "no json", "content type", "encoding"],
)
async def test_a_key_shows_up_nowhere_even_if_the_server_sends_it_back(
    answer: Refusal | RawAnswer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    setting = Setting(headers={"X-Key": Secret(HEADER_KEY)})
    async with (
        open_model_server(one_after_another(answer)) as server,
        open_openai_model(server, setting) as model,
    ):
        (failed,) = await answer_of(model)
        assert isinstance(failed, AnswerFailed)
        shown = [repr(failed), repr(model), *map(repr, vars(model).values())]
    assert server.requests[0].headers["x-key"] == HEADER_KEY
    # What the HTTP library traces, which nobody turns on, are a server's headers as they came.
    logged = [each.getMessage() for each in caplog.records if "httpcore" not in each.name]
    for text in (*shown, *logged):
        assert KEY not in text
        assert HEADER_KEY not in text


async def test_an_answer_that_is_over_need_not_end_its_stream(
    autojump_clock: trio.testing.MockClock,
) -> None:
    answer = RawAnswer((chunk(content="hi"), chunk("stop")), After.HANG)
    async with (
        open_model_server(one_after_another(answer)) as server,
        open_openai_model(server) as model,
    ):
        before = trio.current_time()
        pieces = await answer_of(model)
        assert pieces == [TextPiece("hi"), AnswerEnded(StopReason.STOP, Usage(cost_usd=None))]
        assert trio.current_time() - before < 10


async def test_a_connection_that_breaks_after_the_end_takes_nothing_away() -> None:
    answer = RawAnswer((chunk(content="hi"), chunk("stop")), After.CUT)
    async with (
        open_model_server(one_after_another(answer)) as server,
        open_openai_model(server) as model,
    ):
        assert isinstance((await answer_of(model))[-1], AnswerEnded)


async def test_what_follows_the_end_is_not_listened_to() -> None:
    answer = RawAnswer((chunk("stop", content="hi"), DONE, b"data: {nonsense}\n\n"))
    async with (
        open_model_server(one_after_another(answer, Spoken(()))) as server,
        open_openai_model(server) as model,
    ):
        assert (await answer_of(model))[0] == TextPiece("hi")
        await answer_of(model)
        assert (server.connections, server.disconnects) == (1, 0)


async def test_a_wrong_shape_in_the_middle_fails_the_answer_and_closes_the_connection() -> None:
    answer = RawAnswer((chunk(content="hi"), chunk(content=7)), After.HANG)
    async with (
        open_model_server(one_after_another(answer)) as server,
        open_openai_model(server) as model,
    ):
        pieces = await answer_of(model)
        assert pieces == [
            TextPiece("hi"),
            AnswerFailed(
                Trouble.MALFORMED, "the server does not speak this API: content is not a text"
            ),
        ]
        with trio.fail_after(1):
            await server.wait_disconnected()


async def test_eight_answers_come_side_by_side() -> None:
    texts = [f"answer {number}" for number in range(8)]
    heard: list[str] = []
    async with (
        open_model_server(one_after_another(*(Spoken((TextPiece(t),)) for t in texts))) as server,
        open_openai_model(server) as model,
    ):

        async def ask() -> None:
            piece = (await answer_of(model))[0]
            assert isinstance(piece, TextPiece)
            heard.append(piece.text)

        async with trio.open_nursery() as nursery:
            for _ in texts:
                nursery.start_soon(ask)
    assert sorted(heard) == texts


async def test_nothing_is_asked_before_the_answer_is_wanted() -> None:
    async with (
        open_model_server(one_after_another()) as server,
        open_openai_model(server) as model,
    ):
        async with model.stream("", (UserMessage("Hello."),), ()):
            pass
        assert server.requests == []
