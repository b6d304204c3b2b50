"""The format of scripts: which turns a scripted model gives for which task.

`docs/scripts.md` describes it for its users. A script is checked whole when it is read, so that a
typing error shows up before a run and not in its ninth turn.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from agents.models.port import Trouble, Usage
from agents.strict_yaml import StrictYamlError, decode_yaml
from engine.core.errors import UsageError
from engine.core.quote import quote_value
from engine.records.fields import Many, NotNull
from engine.records.json_text import decode_json
from engine.records.request import Request, RequestError, decode
from engine.system.files import read_input

ANY_TASK = "*"
MAX_SCRIPT_BYTES = 4 << 20
_MAX_DELAY_MS = 3_600_000
_KEY = re.compile(r"(?:\*|[a-z][a-z0-9-]{0,31})(?:@[1-9][0-9]{0,3})?")
_Count = Annotated[int, Field(ge=0, le=10**12, description="a whole number of tokens, not below 0")]


class _CallEntry(Request):
    tool: str = Field(min_length=1, description="the name of a tool")
    arguments: dict[str, object] = Field(
        default_factory=dict, description="an object, the tool's arguments"
    )


class _UsageEntry(Request):
    input: _Count = 0
    output: _Count = 0
    cost_usd: float = Field(
        0.0, ge=0, le=10**6, description="a number of dollars, from 0 to 1,000,000"
    )


class _TurnEntry(Request):
    text: Annotated[str | None, NotNull()] = Field(None, description="text that the agent says")
    thinking: str = Field("", description="text that the agent thinks")
    calls: Annotated[Many[_CallEntry] | None, NotNull()] = Field(
        None, min_length=1, description="a nonempty list of calls, each with tool and arguments"
    )
    usage: _UsageEntry = Field(
        default_factory=_UsageEntry, description="an object with input, output and costUsd"
    )
    delay_ms: int = Field(
        0, ge=0, le=_MAX_DELAY_MS, description=f"a whole number from 0 to {_MAX_DELAY_MS:,}"
    )
    error: Annotated[Literal["rate_limit", "overloaded", "disconnect"] | None, NotNull()] = Field(
        None, description="rate_limit, overloaded or disconnect"
    )
    hang: Annotated[Literal[True] | None, NotNull()] = Field(None, description="true, or left out")


_TURN: TypeAdapter[_TurnEntry] = TypeAdapter(
    Annotated[_TurnEntry, Field(description="an object, such as `text: hello`")]
)


class ScriptError(UsageError):
    """A script cannot be used.

    Attributes:
        source: the file as it was named.
        problem: the place in it, what is wrong there and what would be right.
    """

    def __init__(self, source: str, problem: str) -> None:
        self.source = source
        self.problem = problem
        super().__init__(f"script {source}: {problem}")


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    """A tool call as it stands in the script, references not yet filled in."""

    tool: str
    arguments: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer.

    Attributes:
        delay_ms: how long the answer lets the asker wait before anything of it arrives.
        error: breaks the answer off after its text.
        hang: after its text the answer never ends.
    """

    text: str = ""
    thinking: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    usage: Usage = field(default_factory=Usage)
    delay_ms: int = 0
    error: Trouble | None = None
    hang: bool = False


@dataclass(frozen=True, slots=True)
class Script:
    """All turns of a file, by their key: a task id or `*`, perhaps with `@` and an attempt."""

    turns: Mapping[str, tuple[Turn, ...]]

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks that have turns of their own, each once, in the order of the file."""
        names = (key.partition("@")[0] for key in self.turns)
        return tuple(dict.fromkeys(name for name in names if name != ANY_TASK))

    def turns_of(self, task: str, attempt: int) -> tuple[Turn, ...]:
        """Return the turns of one attempt; the most exact key wins, no key means no turns."""
        for key in (f"{task}@{attempt}", task, f"{ANY_TASK}@{attempt}", ANY_TASK):
            if key in self.turns:
                return self.turns[key]
        return ()


def read_script(path: Path) -> Script:
    """Read and check the script at `path`; blocks, so call it in a thread.

    Raises:
        ScriptError: it is not there, too large, or not a script; the sentence says where and why.
    """
    try:
        data = read_input(path, MAX_SCRIPT_BYTES)
    except UsageError as error:
        raise ScriptError(path.name, f"{error}; give the path of a script") from error
    return decode_script(data, str(path))


def decode_script(data: bytes, source: str) -> Script:
    """Return the script that `data` holds: JSON when `source` ends in `.json`, else YAML.

    Raises:
        ScriptError: the first fault, naming its place and a remedy.
    """
    if len(data) > MAX_SCRIPT_BYTES:
        raise ScriptError(source, f"is larger than {MAX_SCRIPT_BYTES >> 20} MiB; split it")
    is_json = PurePath(source).suffix.lower() == ".json"
    try:
        content = decode_json(data, source) if is_json else decode_yaml(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ScriptError(source, "is not UTF-8 text; save it as UTF-8") from error
    except StrictYamlError as error:
        raise ScriptError(source, str(error)) from error
    except RequestError as error:
        raise ScriptError(source, f"{error.fault}; mend it there") from error
    if not isinstance(content, dict) or not content:
        raise ScriptError(source, "must map task ids, or *, to lists of turns; write `*:` first")
    return Script({key: _turns(key, value, source) for key, value in content.items()})


def _turns(key: str, value: object, source: str) -> tuple[Turn, ...]:
    if not _KEY.fullmatch(key):
        remedy = "use a task id such as fix, fix@2 for its second attempt, or * for any task"
        raise ScriptError(source, f"the key {quote_value(key)} is not a task: {remedy}")
    if not isinstance(value, list):
        raise ScriptError(source, f"{key}: must be a list of turns, not {quote_value(value)}")
    return tuple(_turn(each, f"{key}[{index}]", source) for index, each in enumerate(value))


def _turn(value: object, place: str, source: str) -> Turn:
    try:
        entry = decode(_TURN, value, field=place)
    except RequestError as error:
        raise ScriptError(source, error.fault) from error
    stated = entry.model_fields_set
    if not stated & {"text", "calls", "error", "hang"}:
        raise ScriptError(source, f"{place}: says nothing; give it text, calls, an error or hang")
    if {"error", "hang"} <= stated:
        raise ScriptError(source, f"{place}: has both error and hang; keep one")
    if "calls" in stated and stated & {"error", "hang"}:
        remedy = "an answer that breaks off has no calls; move them to a turn of their own"
        raise ScriptError(source, f"{place}.calls: {remedy}")
    return Turn(
        text=entry.text or "",
        thinking=entry.thinking,
        calls=tuple(ScriptedCall(call.tool, call.arguments) for call in entry.calls or ()),
        usage=Usage(entry.usage.input, entry.usage.output, entry.usage.cost_usd),
        delay_ms=entry.delay_ms,
        error=None if entry.error is None else Trouble(entry.error),
        hang=entry.hang is True,
    )
