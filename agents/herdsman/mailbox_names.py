"""What the folder of a mailbox is called, and the files in it.

`state.json`, `ask.json`, `request-ID.json` and `result-ID.json` mean something, and no other name
does.
"""

import hashlib
import os
import re
from typing import Final

from agents.herdsman.errors import invalid
from agents.herdsman.identity import Label, RequestId, is_uuid

STATE_NAME: Final = "state.json"
ASK_NAME: Final = "ask.json"
_REQUEST_PREFIX: Final = "request-"
_RESULT_PREFIX: Final = "result-"
_SUFFIX: Final = ".json"
_FOLDER_CHARS: Final = 32
_FOLDER: Final = re.compile(f"[0-9a-f]{{{_FOLDER_CHARS}}}")


def is_folder_name(name: str) -> bool:
    """Return whether a mailbox can have a folder of this name."""
    return _FOLDER.fullmatch(name) is not None


def folder_name(workspace: str, label: Label) -> str:
    """Return the name of the folder of an agent's mailbox; no two agents share one."""
    # A path holds no NUL, so that nothing but these two makes this text.
    key = os.fsencode(workspace) + b"\0" + label.encode()
    return hashlib.sha256(key).hexdigest()[:_FOLDER_CHARS]


def request_name(request: RequestId) -> str:
    """Return the name of a request's file.

    Raises:
        HerdError: INVALID_REQUEST: it is no id, and could lead out of the folder.
    """
    return _record_name(_REQUEST_PREFIX, request)


def result_name(request: RequestId) -> str:
    """Return the name of the file of a request's result; see `request_name`."""
    return _record_name(_RESULT_PREFIX, request)


def is_request(name: str) -> bool:
    """Return whether a file of this name is a request."""
    return name.startswith(_REQUEST_PREFIX) and name.endswith(_SUFFIX)


def is_result(name: str) -> bool:
    """Return whether a file of this name is a result."""
    return name.startswith(_RESULT_PREFIX) and name.endswith(_SUFFIX)


def request_of(name: str) -> RequestId | None:
    """Return which request a file is, or is the result of; None where its name holds no id."""
    _, _, rest = name.partition("-")
    id_ = rest.removesuffix(_SUFFIX)
    return RequestId(id_) if is_uuid(id_) else None


def _record_name(prefix: str, request: RequestId) -> str:
    if not is_uuid(request):
        raise invalid("the id of a request must be a full UUID in lower case")
    return f"{prefix}{request}{_SUFFIX}"
