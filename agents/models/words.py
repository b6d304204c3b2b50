"""What an error means of which only the words are left, as a Pi hands them on.

Pure. Pi writes the status first, then the provider's answer: `429: {"error": {...}}`. What it says
by itself, of connections and logins, has words of its own.
"""

import json
import re
from collections.abc import Mapping

from agents.models.port import Trouble
from agents.models.trouble import classify

_STATUS = re.compile(
    r"(?:[\w -]{1,40} error )?\(?([3-5]\d\d)\)?(?::| status code\b)", re.IGNORECASE
)
# An account that has nothing left is not refilled by asking again.
_EMPTY_ACCOUNT = re.compile(
    r"insufficient_quota|quota exceeded|out of budget|usage limit|usagelimit|billing", re.IGNORECASE
)
_NO_LOGIN = re.compile(
    r"no api key|not configured|unknown provider|not logged in|/login|oauth|token refresh"
    r"|authheader requires",
    re.IGNORECASE,
)
_DROPPED = re.compile(
    r"connection.?(?:error|refused|lost|closed|reset)|other side closed|fetch failed|socket"
    r"|network.?error|getaddrinfo|\bE(?:CONN\w+|TIMEDOUT|PIPE|NOTFOUND|AI_AGAIN)\b|timed? ?out"
    r"|terminated|ended (?:without|before)|before completion|cut short|interrupted|retry delay"
    r"|internal.?(?:server.?)?error|upstream",
    re.IGNORECASE,
)
_BUSY = re.compile(
    r"unavailable|servers? (?:is|are) (?:currently )?busy|high demand|at capacity", re.IGNORECASE
)
_TOO_LONG = re.compile(
    r"too many tokens|token limit exceeded|context window|maximum allowed input length"
    r"|input length|prompt (?:is )?too long|prompt exceeds",
    re.IGNORECASE,
)


def classify_words(words: str) -> Trouble:
    """Return what kind of trouble the words speak of."""
    if _EMPTY_ACCOUNT.search(words):
        return Trouble.OTHER
    stated = _STATUS.match(words)
    status = int(stated[1]) if stated else None
    code = _code(words[stated.end() :]) if stated else None
    found = classify(status, code, words)
    if found is not Trouble.OTHER:
        return found
    for trouble, pattern in (
        (Trouble.CONTEXT_LENGTH, _TOO_LONG),
        (Trouble.OVERLOADED, _BUSY),
        (Trouble.DISCONNECT, _DROPPED),
        (Trouble.AUTHENTICATION, _NO_LOGIN),
    ):
        # A refusal with a status is what it is: it may well speak of timeouts.
        if pattern.search(words) and (status is None or trouble is Trouble.CONTEXT_LENGTH):
            return trouble
    return Trouble.OTHER


def _code(body: str) -> str | None:
    """Return the provider's own word for an error out of its answer."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return None
    error = answer.get("error", answer) if isinstance(answer, Mapping) else None
    if not isinstance(error, Mapping):
        return None
    found = next((error[name] for name in ("code", "type") if error.get(name)), None)
    return found if isinstance(found, str) else None
