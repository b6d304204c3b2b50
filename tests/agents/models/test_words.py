import pytest

from agents.models.port import Trouble
from agents.models.words import classify_words


@pytest.mark.parametrize(
    ("words", "trouble"),
    [
        ('429: {"error": {"message": "slow down", "type": "rate_limit"}}', Trouble.RATE_LIMIT),
        ("Codex API error (429): too many requests", Trouble.RATE_LIMIT),
        ("Server requested 90s retry delay (max: 60s). 429 slow down", Trouble.DISCONNECT),
        ('429: {"error": {"code": "insufficient_quota"}}', Trouble.OTHER),
        ("429: Monthly usage limit reached", Trouble.OTHER),
        ('529: {"type": "error", "error": {"type": "overloaded_error"}}', Trouble.OVERLOADED),
        ("503: down", Trouble.OVERLOADED),
        ("The model is at capacity", Trouble.OVERLOADED),
        ("500: oops", Trouble.DISCONNECT),
        ("401: nobody", Trouble.AUTHENTICATION),
        ("No API key found for acme", Trouble.AUTHENTICATION),
        ("Provider is not configured: acme", Trouble.AUTHENTICATION),
        ('400: {"error": {"code": "context_length_exceeded"}}', Trouble.CONTEXT_LENGTH),
        ("400: prompt is too long: 9 tokens > 8 maximum", Trouble.CONTEXT_LENGTH),
        ("400 status code (no body)", Trouble.OTHER),
        ("413: too large", Trouble.CONTEXT_LENGTH),
        ("Token limit exceeded", Trouble.CONTEXT_LENGTH),
        ("Connection error.: connect ECONNREFUSED 127.0.0.1:1", Trouble.DISCONNECT),
        ("Stream ended without finish_reason", Trouble.DISCONNECT),
        ("Request timed out.: silence", Trouble.DISCONNECT),
        ("terminated", Trouble.DISCONNECT),
        ("400: the field timeout is unknown", Trouble.OTHER),
        ("Provider finish_reason: content_filter", Trouble.OTHER),
        ('404: {"error": "no such model"}', Trouble.OTHER),
        ('404: ["no such model"]', Trouble.OTHER),
        ('500: {"error": {"code": 7}}', Trouble.DISCONNECT),
        ("", Trouble.OTHER),
    ],
)
def test_kinds_of_trouble_are_told_apart_by_what_pi_says(words: str, trouble: Trouble) -> None:
    assert classify_words(words) is trouble
