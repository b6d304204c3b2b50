"""What a provider's error means, when to come back, and what may be repeated of its words.

Pure: statuses, codes and texts in, values out. Each adapter takes its library's errors apart.
"""

import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

from agents.models.port import Trouble
from engine.core.quote import one_line

MAX_MESSAGE_CHARS = 2_000
MAX_RETRY_AFTER_S = 86_400.0
_SCRUBBED = "[key]"
_FIRST_ERROR, _FIRST_SERVER_ERROR, _AFTER_ERRORS = 300, 500, 600

_BY_STATUS = {
    401: Trouble.AUTHENTICATION,
    403: Trouble.AUTHENTICATION,
    408: Trouble.DISCONNECT,
    413: Trouble.CONTEXT_LENGTH,
    429: Trouble.RATE_LIMIT,
    503: Trouble.OVERLOADED,
    529: Trouble.OVERLOADED,
}
_BY_CODE = {
    "api_error": Trouble.DISCONNECT,
    "authentication_error": Trouble.AUTHENTICATION,
    "context_length_exceeded": Trouble.CONTEXT_LENGTH,
    "internal_server_error": Trouble.DISCONNECT,
    "invalid_api_key": Trouble.AUTHENTICATION,
    "overloaded_error": Trouble.OVERLOADED,
    "permission_error": Trouble.AUTHENTICATION,
    "rate_limit_error": Trouble.RATE_LIMIT,
    "rate_limit_exceeded": Trouble.RATE_LIMIT,
    "request_too_large": Trouble.CONTEXT_LENGTH,
    "server_error": Trouble.DISCONNECT,
    "server_overloaded": Trouble.OVERLOADED,
    "timeout_error": Trouble.DISCONNECT,
}
# The account is empty: no wait fills it, whatever status comes with the word.
_HOPELESS = {"billing_error", "insufficient_quota"}
_RATE_LIMIT = re.compile(r"rate[ _-]?limit|too many requests|throttl", re.IGNORECASE)
_OVERLOADED = re.compile(
    r"overloaded|(?:over|exceed\w*)[ _-](?:\w+ ){0,2}capacity|resource[ _-]?exhausted",
    re.IGNORECASE,
)
# A number counts as a status only where nothing but a status can stand.
_STATUS_IN_TEXT = re.compile(
    r"(?:^|\b(?:status|http|error)(?: code)?[ :=]+)(\d{3})\b", re.IGNORECASE
)
_TOO_LONG = re.compile(
    r"context[ _-]?(?:length|window|size|limit)|maximum context|maximum prompt length"
    r"|(?:prompt|input) is too long|input token count|reduce the length",
    re.IGNORECASE,
)
_UNKNOWN_ASKER = re.compile(r"(?:invalid|incorrect) api[ _-]?key|unauthori[sz]ed", re.IGNORECASE)


def classify(status: int | None, code: str | None, message: str) -> Trouble:
    """Return what kind of trouble a provider reports.

    A known status decides, and texts only tell apart what it leaves open. Without one the
    provider's code decides, then its words.

    Args:
        status: of HTTP; anything below 300 says nothing: a stream that breaks off began well.
        code: the provider's own word for the error.
        message: what it says to people.
    """
    word = (code or "").lower()
    if word in _HOPELESS:
        return Trouble.OTHER
    if status is None or not _FIRST_ERROR <= status < _AFTER_ERRORS:
        # Some servers send a status as the code of an error inside a stream.
        status = _status(word)
    if status is not None:
        return _by_status(status, word, message)
    return _BY_CODE.get(word) or _by_words(message)


def read_retry_after(headers: Mapping[str, str], now_s: float) -> float | None:
    """Return for how many seconds a provider asks to be left alone.

    Sources: RFC 9110, section 10.2.3, and the `retry-after-ms` that providers add to it.

    Args:
        headers: of its answer, names in any case.
        now_s: seconds since 1970-01-01 UTC.

    Returns:
        From 0 to `MAX_RETRY_AFTER_S`; None when nothing is said that makes sense.
    """
    plain = {name.lower(): value.strip() for name, value in headers.items()}
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        delay = _number(plain.get(name, ""))
        if delay is not None:
            return _bounded(delay * unit_s)
    try:
        date = parsedate_to_datetime(plain.get("retry-after", ""))
    except (ValueError, OverflowError):
        return None
    # A date of HTTP is of Greenwich, also when it does not say so.
    aware = date if date.tzinfo else date.replace(tzinfo=UTC)
    return _bounded(aware.timestamp() - now_s)


def tidy_message(text: str, secrets: Iterable[str]) -> str:
    """Return `text` on one line of bounded length, safe on any terminal, without secrets."""
    return one_line(strike_out(text, secrets), MAX_MESSAGE_CHARS)


def strike_out(text: str, secrets: Iterable[str]) -> str:
    """Return `text` without secrets, however JSON spells them; what was JSON still is."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = _spellings(secret).sub(_SCRUBBED, text)
    return text


def _spellings(secret: str) -> re.Pattern[str]:
    """Return what fits a secret as it is, and as JSON, or JSON inside of JSON, may spell it."""
    return re.compile("".join(map(_spelling, secret)))


def _spelling(char: str) -> str:
    code = "".join(f"[{digit}{digit.upper()}]" for digit in f"{ord(char):04x}")
    # Few backslashes, so that a text of nothing else takes no longer.
    return rf"\\{{0,4}}(?:{re.escape(char)}|(?<=\\)u{code})"


def _by_status(status: int, word: str, message: str) -> Trouble:
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status >= _FIRST_SERVER_ERROR:
        return Trouble.DISCONNECT
    is_too_long = _BY_CODE.get(word) is Trouble.CONTEXT_LENGTH or _TOO_LONG.search(message)
    return Trouble.CONTEXT_LENGTH if is_too_long else Trouble.OTHER


def _by_words(message: str) -> Trouble:
    """Return what the words say; a rate limit may speak of tokens, so it comes first."""
    stated = _STATUS_IN_TEXT.search(message)
    if _RATE_LIMIT.search(message):
        return Trouble.RATE_LIMIT
    if _OVERLOADED.search(message):
        return Trouble.OVERLOADED
    if _TOO_LONG.search(message):
        return Trouble.CONTEXT_LENGTH
    if _UNKNOWN_ASKER.search(message):
        return Trouble.AUTHENTICATION
    status = _status(stated[1]) if stated else None
    return Trouble.OTHER if status is None else _by_status(status, "", message)


def _status(word: str) -> int | None:
    is_number = word.isascii() and word.isdigit() and len(word) <= len("599")
    number = int(word) if is_number else 0
    return number if _FIRST_ERROR <= number < _AFTER_ERRORS else None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _bounded(delay_s: float) -> float:
    return min(max(delay_s, 0.0), MAX_RETRY_AFTER_S)
