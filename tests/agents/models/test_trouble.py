import pytest
from hypothesis import given, strategies as st

from agents.models.port import Trouble
from agents.models.trouble import (
    MAX_MESSAGE_CHARS,
    MAX_RETRY_AFTER_S,
    classify,
    read_retry_after,
    tidy_message,
)

# 2023-11-14 22:13:20 UTC
NOW_S = 1_700_000_000.0


@pytest.mark.parametrize(
    ("status", "trouble"),
    [
        (307, Trouble.OTHER),
        (400, Trouble.OTHER),
        (401, Trouble.AUTHENTICATION),
        (403, Trouble.AUTHENTICATION),
        (404, Trouble.OTHER),
        (408, Trouble.DISCONNECT),
        (413, Trouble.CONTEXT_LENGTH),
        (422, Trouble.OTHER),
        (429, Trouble.RATE_LIMIT),
        (500, Trouble.DISCONNECT),
        (502, Trouble.DISCONNECT),
        (503, Trouble.OVERLOADED),
        (529, Trouble.OVERLOADED),
    ],
)
def test_a_known_status_decides_whatever_the_words_say(status: int, trouble: Trouble) -> None:
    assert classify(status, None, "") is trouble
    assert classify(status, None, "too many requests, overloaded, error 429, 529") is trouble


@pytest.mark.parametrize("status", [None, 200, 0])
@pytest.mark.parametrize(
    ("message", "trouble"),
    [
        ("Rate limit reached for requests", Trouble.RATE_LIMIT),
        ("rate_limit_error", Trouble.RATE_LIMIT),
        ("429: slow down", Trouble.RATE_LIMIT),
        ("HTTP 429", Trouble.RATE_LIMIT),
        ("Too Many Requests", Trouble.RATE_LIMIT),
        ("your request was throttled", Trouble.RATE_LIMIT),
        ("rate limit: too many tokens in the context window", Trouble.RATE_LIMIT),
        ("Overloaded", Trouble.OVERLOADED),
        ("we are over capacity", Trouble.OVERLOADED),
        ("the model has exceeded its capacity", Trouble.OVERLOADED),
        ("Resource exhausted", Trouble.OVERLOADED),
        ("RESOURCE_EXHAUSTED", Trouble.OVERLOADED),
        ("status code: 503", Trouble.OVERLOADED),
        ("error 500", Trouble.DISCONNECT),
        ("This model's maximum context length is 8192 tokens", Trouble.CONTEXT_LENGTH),
        ("prompt is too long: 210000 tokens > 200000 maximum", Trouble.CONTEXT_LENGTH),
        ("the request exceeds the available context size", Trouble.CONTEXT_LENGTH),
        ("Incorrect API key provided", Trouble.AUTHENTICATION),
        ("Unauthorized", Trouble.AUTHENTICATION),
        ("wrote 429 lines to 503 files", Trouble.OTHER),
        ("no such model", Trouble.OTHER),
        ("", Trouble.OTHER),
    ],
)
def test_words_decide_when_there_is_no_status(
    status: int | None, message: str, trouble: Trouble
) -> None:
    assert classify(status, None, message) is trouble


@pytest.mark.parametrize(
    ("code", "trouble"),
    [
        ("overloaded_error", Trouble.OVERLOADED),
        ("rate_limit_exceeded", Trouble.RATE_LIMIT),
        ("Rate_Limit_Error", Trouble.RATE_LIMIT),
        ("api_error", Trouble.DISCONNECT),
        ("authentication_error", Trouble.AUTHENTICATION),
        ("context_length_exceeded", Trouble.CONTEXT_LENGTH),
        ("429", Trouble.RATE_LIMIT),
        ("502", Trouble.DISCONNECT),
        ("99999", Trouble.OTHER),
        ("unheard_of", Trouble.OTHER),
    ],
)
def test_a_code_decides_before_the_words(code: str, trouble: Trouble) -> None:
    assert classify(None, code, "something happened") is trouble


@pytest.mark.parametrize("status", [400, 422])
def test_a_bad_request_can_be_one_that_is_too_long(status: int) -> None:
    assert classify(status, "context_length_exceeded", "") is Trouble.CONTEXT_LENGTH
    assert classify(status, None, "input is too long") is Trouble.CONTEXT_LENGTH


@pytest.mark.parametrize("status", [None, 429])
def test_an_empty_account_is_not_worth_waiting_for(status: int | None) -> None:
    assert classify(status, "insufficient_quota", "you exceeded your quota") is Trouble.OTHER


@pytest.mark.parametrize(
    ("headers", "delay_s"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"Retry-After": " 0.5 "}, 0.5),
        ({"RETRY-AFTER-MS": "250", "retry-after": "7"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "7"}, 7.0),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "999999999"}, MAX_RETRY_AFTER_S),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e999"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "Tue, 14 Nov 2023 22:14:20 GMT"}, 60.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:14:20"}, 60.0),
        ({"retry-after": "Tue, 14 Nov 2023 21:00:00 GMT"}, 0.0),
        ({"retry-after": "Mon, 01 Jan 0001 00:00:00 +2359"}, 0.0),
        ({"retry-after": f"Tue, 14 Nov {10**20} 22:14:20 GMT"}, None),
        ({"retry-after": "Tue, 99 Nov 2023 22:14:20 GMT"}, None),
    ],
)
def test_a_provider_says_when_to_come_back(headers: dict[str, str], delay_s: float | None) -> None:
    assert read_retry_after(headers, NOW_S) == delay_s


@given(st.text())
def test_any_header_gives_a_bounded_delay_or_none(text: str) -> None:
    for name in ("retry-after", "retry-after-ms"):
        delay_s = read_retry_after({name: text}, NOW_S)
        assert delay_s is None or 0 <= delay_s <= MAX_RETRY_AFTER_S


def test_a_message_is_one_bounded_line_without_control_characters() -> None:
    assert tidy_message("a\n\x1b[31mb\t\ud800c\n", ()) == r"a \x1b[31mb \ud800c"
    assert len(tidy_message("x" * 1_000_000, ())) == MAX_MESSAGE_CHARS


def test_secrets_are_struck_out_wherever_they_stand() -> None:
    said = tidy_message("key=sk-12, again sk-123 and sk-12", ("sk-12", "", "sk-123"))
    assert said == "key=[key], again [key] and [key]"


@pytest.mark.parametrize(
    "spelt",
    [
        "sk/live-1",
        r"sk\/live-1",
        r"sk\\\/live-1",
        "".join(f"\\u{ord(each):04x}" for each in "sk/live-1"),
        "".join(f"\\\\u{ord(each):04X}" for each in "sk/live-1"),
        r"sk\u002Flive\u002d1",
    ],
)
def test_secrets_are_struck_out_as_json_spells_them(spelt: str) -> None:
    assert tidy_message(f'{{"said": "no {spelt}."}}', ("sk/live-1",)) == '{"said": "no [key]."}'


def test_text_that_is_all_but_a_secret_takes_no_time() -> None:
    assert tidy_message("\\" * 1_000_000, ("sk/live-1",)).startswith("\\" * 1_000)


@given(st.integers(0, 2 * MAX_MESSAGE_CHARS))
def test_no_part_of_a_secret_is_left_where_a_message_is_cut(place: int) -> None:
    assert "s" not in tidy_message("x" * place + "s" * 40 + "y", ("s" * 40,))
