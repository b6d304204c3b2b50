"""A model that says what a script says: for demonstrations, tests and trial runs without a key."""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager

import trio

from agents.models.port import (
    AnswerEnded,
    AnswerFailed,
    AnswerPiece,
    CallReady,
    Message,
    StopReason,
    TextPiece,
    ThinkingPiece,
    ToolCall,
    ToolDeclaration,
    Trouble,
)
from agents.models.script import Script, ScriptedCall, Turn

PROVIDER = "scripted"
REFERENCES = ("fingerprint", "task", "workspace")
_REFERENCE = re.compile(r"\$?\$\{(" + "|".join(REFERENCES) + r")\}")


class UnknownReferenceError(ValueError):
    """A turn refers to something that its task does not have."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"the script refers to ${{{name}}}, which this task does not have")


class ScriptedModel:
    """Gives the turns of one attempt, one for each request, whoever asks.

    A turn is used up when it is asked for, also when it breaks off or is abandoned. After the last
    one every answer is empty.
    """

    def __init__(
        self, script: Script, name: str, task: str, attempt: int, values: Mapping[str, str]
    ) -> None:
        """Begin at the first turn.

        Args:
            script: all turns; those of `task` and `attempt` are given.
            name: the model's id, the path of the script as it was written.
            task: the id of the task.
            attempt: its number, from 1.
            values: what references mean, by their names in `REFERENCES`; an absent one that a turn
                refers to breaks that answer off.
        """
        self._name = name
        self._turns = script.turns_of(task, attempt)
        self._values = {**values, "task": task}
        self._next = 0

    @property
    def provider(self) -> str:
        """The provider's name."""
        return PROVIDER

    @property
    def id(self) -> str:
        """The path of the script as it was written."""
        return self._name

    @property
    def context_tokens(self) -> int | None:
        """None: a script reads nothing, so nothing fills up."""
        return None

    @asynccontextmanager
    async def stream(
        self,
        system: str,
        messages: Sequence[Message],
        tools: Sequence[ToolDeclaration],
    ) -> AsyncIterator[AsyncIterator[AnswerPiece]]:
        """Open the next turn's answer; a script says the same whatever it is told."""
        number = self._next
        self._next += 1
        turn = self._turns[number] if number < len(self._turns) else Turn()
        pieces = self._pieces(turn, number)
        try:
            yield pieces
        finally:
            await pieces.aclose()

    async def _pieces(self, turn: Turn, number: int) -> AsyncGenerator[AnswerPiece, None]:
        await trio.sleep(turn.delay_ms / 1000)
        try:
            spoken = list(self._spoken(turn, number))
        except UnknownReferenceError as error:
            yield AnswerFailed(Trouble.OTHER, str(error), turn.usage)
            return
        for piece in spoken:
            yield piece
        if turn.hang:
            await trio.sleep_forever()
        if turn.error is not None:
            yield AnswerFailed(turn.error, f"scripted {turn.error.value}", turn.usage)
            return
        yield AnswerEnded(StopReason.TOOL_USE if turn.calls else StopReason.STOP, turn.usage)

    def _spoken(self, turn: Turn, number: int) -> Iterator[AnswerPiece]:
        if turn.thinking:
            yield ThinkingPiece(_fill_text(turn.thinking, self._values))
        if turn.text:
            yield TextPiece(_fill_text(turn.text, self._values))
        for index, call in enumerate(turn.calls):
            yield CallReady(self._call(call, f"call_{number + 1}_{index + 1}"))

    def _call(self, call: ScriptedCall, call_id: str) -> ToolCall:
        arguments = {key: _fill(each, self._values) for key, each in call.arguments.items()}
        return ToolCall(call_id, call.tool, arguments)


def _fill(value: object, values: Mapping[str, str]) -> object:
    """Return `value` with the references in all its texts, keys excepted, filled in."""
    if isinstance(value, str):
        return _fill_text(value, values)
    if isinstance(value, list):
        return [_fill(each, values) for each in value]
    if isinstance(value, dict):
        return {key: _fill(each, values) for key, each in value.items()}
    return value


def _fill_text(text: str, values: Mapping[str, str]) -> str:
    def replacement(match: re.Match[str]) -> str:
        whole, name = match.group(0), match.group(1)
        if whole.startswith("$$"):
            return whole[1:]
        if name not in values:
            raise UnknownReferenceError(name)
        return values[name]

    return _REFERENCE.sub(replacement, text)
