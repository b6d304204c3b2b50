"""What a tool is: a name, a description for models, one request model and one handler."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Generic, TypeVar

from pydantic import BaseModel, Field, TypeAdapter

from engine.records.request import decode
from pinata.work.context import Context

Answer = dict[str, Any]
R = TypeVar("R", bound=BaseModel)
# Commands that people have and models do not: a session that is back need not ask for its run, and
# whether what was lost is worth its price a second time is for a person to say.
RESUME: Final = "resume"
RERUN: Final = "rerun"
GC: Final = "gc"
RUN_PREFIX_RULE: Final = "a run's id or the beginning of one"
RunPrefix = Annotated[str, Field(min_length=1, description=RUN_PREFIX_RULE)]


@dataclass(frozen=True, slots=True)
class Tool(Generic[R]):
    """One tool of the registry.

    Attributes:
        description: says to a model when and how to call it, and what it answers.
        request: its parameters; unknown fields are refused.
        changes_state: whether it may change anything, which agents must not.
    """

    name: str
    description: str
    request: type[R]
    handler: Callable[[Context, R], Awaitable[Answer]]
    changes_state: bool

    async def call(self, context: Context, arguments: object) -> Answer:
        """Return the handler's answer to what a JSON text holds.

        Raises:
            UsageError: the arguments do not fit; names the field.
            PinataError: the call was refused, or failed.
        """
        return await self.handler(context, decode(TypeAdapter(self.request), arguments))

    def describe(self) -> Answer:
        """Return name, description and the JSON schema of the parameters."""
        return {
            "name": self.name,
            "description": self.description,
            "changesState": self.changes_state,
            "parameters": TypeAdapter(self.request).json_schema(),
        }


def with_notices(answer: Answer, notices: Sequence[str]) -> Answer:
    """Return `answer` with more notices after those that it has."""
    return answer | {"notices": [*answer.get("notices", ()), *notices]} if notices else answer


def by_name(*tools: Tool[Any]) -> Mapping[str, Tool[Any]]:
    """Return `tools` as a table."""
    return {tool.name: tool for tool in tools}
