"""What the extension makes of a host's questions and of Pi's events, with Pi itself played."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
import trio

from agents.pi_program import COORDINATOR
from tests.support.real_pi import NODE, PLAYED

pytestmark = [pytest.mark.slow, pytest.mark.unmeasured]

Json = dict[str, Any]
Played = tuple[list[list[Json]], list[Json]]
PRICES = {"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0}
MODEL: Json = {"provider": "acme", "id": "m1", "api": "talk", "contextWindow": 32_000}
FREE = dict.fromkeys(PRICES, 0)
SECRETS = {
    "ok": True,
    "apiKey": "sk-planted-key",
    "headers": {"authorization": "Bearer tk-planted-token", "x-team": "blue"},
    "env": {"REGION_TOKEN": "rg-planted-value"},
}
USAGE: Json = {
    "input": 100,
    "output": 10,
    "cacheRead": 20,
    "cacheWrite": 5,
    "totalTokens": 135,
    "cost": {"input": 0.1, "output": 0.2, "cacheRead": 0, "cacheWrite": 0, "total": 0.3},
}
COUNTS = {"input": 100, "output": 10, "cacheRead": 20, "cacheWrite": 5, "cost": 0.3}
MORE: Json = {"hear": {"type": "more", "request": 1}}


async def play_all(scenes: Sequence[Sequence[Json]], **pi: Any) -> list[Played]:
    """Return for each scene the frames that its steps led to, and what Pi's models were asked."""
    known = {"models": [MODEL | {"cost": PRICES}], "logins": ["acme"], "secrets": SECRETS}
    done = await trio.run_process(
        [str(NODE), "--no-warnings", str(PLAYED), str(COORDINATOR / "streams.ts")],
        stdin=json.dumps({"pi": known | pi, "scenes": scenes}).encode(),
        capture_stdout=True,
    )
    return [(each["led"], each["asked"]) for each in json.loads(done.stdout)]


async def play(*steps: Json, **pi: Any) -> Played:
    """Play one scene."""
    [played] = await play_all([steps], **pi)
    return played


def opens(**more: Any) -> Json:
    asked = {"provider": "acme", "model": "m1", "thinking": "off", "system": "be brief"}
    return {"hear": {"type": "stream", "request": 1, "messages": [], "tools": []} | asked | more}


def event(type_: str, **fields: Any) -> Json:
    return {"event": {"type": type_, **fields}}


def done(*content: Json, reason: str = "stop") -> Json:
    message = {"content": content, "stopReason": reason, "usage": USAGE}
    return event("done", reason=reason, message=message)


def fails(words: str, **more: Any) -> Json:
    error = {"content": [], "stopReason": "error", "errorMessage": words, "usage": USAGE}
    return event("error", reason="error", error=error | more)


def pieces(*given: Json) -> list[Json]:
    return [{"type": "pieces", "request": 1, "pieces": list(given)}]


def said(text: str) -> Json:
    return {"type": "text", "text": text}


END: Json = {"type": "end", "reason": "stop", "usage": COUNTS}


async def test_models_are_listed_with_what_pi_knows_of_them() -> None:
    free = {"provider": "home", "id": "m2", "cost": FREE, "contextWindow": 0}
    names = [("acme", "m1"), ("home", "m2"), ("acme", "m9"), ("other", "m3"), ("broken", "m")]
    steps = [
        {"hear": {"type": "find_model", "request": 1, "provider": provider, "model": model}}
        for provider, model in names
    ]
    other = MODEL | {"provider": "other", "id": "m3", "cost": PRICES}
    models = [MODEL | {"cost": PRICES}, free, other]
    led, _ = await play(*steps, models=models, logins=["acme", "home"])
    model = {"type": "model", "request": 1}
    assert [frame for frames in led for frame in frames] == [
        model | {"contextTokens": 32_000, "hasPrice": True},
        model | {"hasPrice": False},
        model | {"fault": "Pi knows no such model"},
        model | {"fault": "Pi has no login for other"},
        model | {"fault": "the registry is broken"},
    ]


async def test_answer_is_handed_out_as_it_is_asked_for() -> None:
    thought = {"type": "thinking", "thinking": "hm", "thinkingSignature": "sig"}
    redacted = {"type": "thinking", "thinking": "", "thinkingSignature": "r", "redacted": True}
    call = {"type": "toolCall", "id": "c|1", "name": "read", "arguments": {"path": "a"}}
    partial = {"content": [thought, redacted]}
    led, asked = await play(
        opens(),
        event("start", partial=partial),
        event("thinking_delta", contentIndex=0, delta="h"),
        event("thinking_delta", contentIndex=0, delta="m"),
        event("thinking_end", contentIndex=0, content="hm", partial=partial),
        event("thinking_end", contentIndex=1, content="", partial=partial),
        event("text_delta", contentIndex=2, delta="so"),
        event("text_delta", contentIndex=2, delta=" it"),
        MORE,
        event("text_delta", contentIndex=2, delta=" is"),
        MORE,
        event("toolcall_end", contentIndex=3, toolCall=call),
        done(call | {"thoughtSignature": "proof", "argumentsError": "bad"}, reason="toolUse"),
        MORE,
    )
    assert led == [
        [],
        [],
        pieces({"type": "thinking", "text": "h"}),
        [],
        [],
        [],
        [],
        [],
        pieces(
            {"type": "thinking", "text": "m"},
            {"type": "thought", "signature": "sig", "redacted": False},
            {"type": "thought", "signature": "r", "redacted": True},
            said("so it"),
        ),
        [],
        pieces(said(" is")),
        [],
        [],
        pieces(
            {
                "type": "call",
                "id": "c|1",
                "name": "read",
                "signature": "proof",
                "fault": "bad",
                "arguments": {"path": "a"},
            },
            END | {"reason": "toolUse"},
        ),
    ]
    [one] = asked
    assert one["options"] == {"maxRetries": 0}
    assert not one["isAborted"]


async def test_conversation_goes_to_the_model_as_its_own() -> None:
    tool = {"name": "read", "description": "reads", "parameters": {"type": "object"}}
    call = {"type": "toolCall", "id": "c1", "name": "read", "arguments": {}}
    result = {"role": "toolResult", "toolCallId": "c1", "toolName": "read", "content": []}
    messages: list[Json] = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [call]},
        result,
        {"role": "assistant", "content": [{"type": "text", "text": "so"}]},
    ]
    _, [asked] = await play(opens(messages=messages, tools=[tool], thinking="high"), done())
    assert asked["options"] == {"reasoning": "high", "maxRetries": 0}
    context = asked["context"]
    assert (context["systemPrompt"], context["tools"]) == ("be brief", [tool])
    for message in context["messages"]:
        assert message.pop("timestamp") > 0
        message.pop("usage", None)
    own = {"api": "talk", "provider": "acme", "model": "m1"}
    assert context["messages"] == [
        messages[0],
        messages[1] | own | {"stopReason": "toolUse"},
        result,
        messages[3] | own | {"stopReason": "stop"},
    ]


async def test_error_is_told_in_pis_words_and_without_a_key() -> None:
    keys = "sk-planted-key, tk-planted-token, rg-planted-value, blue"
    faults: list[tuple[list[Json], Json]] = [
        ([opens(model="m9")], {"words": "Pi knows no such model"}),
        ([opens(), {"break": "terminated"}], {"words": "terminated"}),
        ([opens(), {"close": True}], {"words": "the answer ended without an end"}),
        ([opens(), fails("429: slow")], {"words": "429: slow", "usage": COUNTS}),
        (
            [opens(), fails("", stopReason="aborted")],
            {"words": "the answer ended with aborted", "usage": COUNTS},
        ),
        ([opens(), fails("x" * 3_000)], {"words": "x" * 2_000, "usage": COUNTS}),
        (
            [opens(), fails(f"401: {keys}")],
            {"words": "401: [key], [key], [key], blue", "usage": COUNTS},
        ),
        ([opens(), {"break": "not sk-planted-key"}], {"words": "not [key]"}),
    ]
    played = await play_all([steps for steps, _ in faults])
    for (led, _), (_, fault) in zip(played, faults, strict=True):
        assert led[-1] == pieces({"type": "fault"} | fault)
        assert [frame for frames in led[:-1] for frame in frames] == []


async def test_given_up_answer_is_aborted_and_nothing_more_is_told() -> None:
    ends: list[Json] = [{"hear": {"type": "abort", "request": 1}}, {"leave": True}]
    first, then = (event("text_delta", contentIndex=0, delta=text) for text in ("so", " it"))
    aborted = fails("aborted", stopReason="aborted")
    for led, [asked] in await play_all(
        [[opens(), first, end, then, MORE, aborted] for end in ends]
    ):
        assert led == [[], pieces(said("so")), [], [], [], []]
        assert asked["isAborted"]


async def test_what_waits_goes_out_in_frames_that_are_not_too_long() -> None:
    long = "x" * 250_000
    led, _ = await play(
        opens(),
        event("text_delta", contentIndex=0, delta="first"),
        *[event("text_delta", contentIndex=0, delta=long)] * 5,
        done(),
        MORE,
        MORE,
    )
    first, second = (led[index][0]["pieces"] for index in (-2, -1))
    texts = [piece["text"] for piece in [*first, *second[:-1]]]
    assert max(map(len, texts)) == 100_000
    assert "".join(texts) == long * 5
    assert sum(len(piece["text"]) for piece in first) <= 1_000_000
    assert second[-1] == END


async def test_call_that_is_too_long_for_a_frame_says_so() -> None:
    call = {"type": "toolCall", "id": "c1", "name": "write"}
    led, _ = await play(opens(), done(call | {"arguments": {"text": "x" * 8_000_001}}))
    [piece, _] = led[-1][0]["pieces"]
    assert piece["arguments"] == {}
    assert piece["fault"] == "the arguments are too long; send less at once"


async def test_answer_without_end_is_given_up_before_it_fills_the_memory() -> None:
    long = event("text_delta", contentIndex=0, delta="x" * 1_000_000)
    led, [asked] = await play(opens(), long, long | {"times": 33}, MORE)
    assert led[-1] == pieces({"type": "fault", "words": "the answer is too long"})
    assert asked["isAborted"]


async def test_frame_that_asks_nothing_of_models_is_nobodys() -> None:
    led, asked = await play({"hear": {"type": "fly", "request": 1}}, MORE)
    assert (led, asked) == ([[], []], [])
