"""What a file tool is: its description for the model, its arguments, and one way to call it.

A model makes mistakes and disks say no. Neither is an exception to the one who runs an agent:
`Tool.run` answers every one of them with a sentence that says what to do instead.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from agents.filetools.arguments import decode_arguments
from agents.schema import describe
from engine.core.errors import PinataError, UsageError, reason_of
from engine.records.request import Request

A = TypeVar("A", bound=Request)


def ignore_update(text: str) -> None:
    """Do nothing: nobody follows the call."""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Where a tool works.

    Attributes:
        root: the agent's working directory; relative paths start here, and nothing outside of it
            is written.
        env: the whole environment of the agent's commands; `HOME` is also what `~` stands for.
        mark: what the agent's processes carry so that they can be found; see
            `engine.system.process`.
        list_files: the files that grep and find look at, relative to `root`, in Git's order.
        shell: the program that reads the text of a bash call.
        identity: device and inode of `root`; where they are known, nothing is written and no
            command is run once something else stands there.
        secrets: files that no tool reads.
        update: told the end of what a call that goes on wrote so far, a few times a second at
            most; must neither block nor fail.
    """

    root: Path
    env: Mapping[str, str]
    mark: str | None
    list_files: Callable[[], Awaitable[tuple[bytes, ...]]]
    shell: str
    identity: tuple[int, int] | None = None
    secrets: tuple[Path, ...] = ()
    update: Callable[[str], None] = ignore_update

    @property
    def home(self) -> str | None:
        """The directory that `~` stands for, when it is known."""
        return self.env.get("HOME") or None


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What the model reads.

    Attributes:
        is_error: the call did not do what was asked; `text` says why and what helps.
    """

    text: str
    is_error: bool = False


class ToolFaultError(UsageError):
    """A call cannot be carried out; the message is written for the model that made it."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as a model sees it, and how to call it.

    Attributes:
        description: for the model.
        parameters: the arguments as a JSON schema.
        run: takes where to work and the arguments as the model sent them. Raises nothing but
            `trio.Cancelled`, unless there is a bug.
    """

    name: str
    description: str
    parameters: Mapping[str, object]
    run: Callable[[ToolContext, object], Awaitable[ToolAnswer]]


def build(
    perform: Callable[[ToolContext, A], Awaitable[ToolAnswer]],
    name: str,
    *,
    description: str,
    arguments: type[A],
) -> Tool:
    """Return the tool `name`, which calls `perform` with decoded arguments.

    Args:
        name: as models call it.
        description: for the model.
        perform: may raise `PinataError` and `OSError`; the model gets their messages.
        arguments: one of the classes of `agents.filetools.arguments`.
    """

    async def run(context: ToolContext, given: object) -> ToolAnswer:
        try:
            return await perform(context, decode_arguments(arguments, given))
        except PinataError as error:
            return ToolAnswer(f"{name}: {error}", is_error=True)
        except OSError as error:
            return ToolAnswer(f"{name}: {_reason(error)}", is_error=True)

    return Tool(name, description, describe(arguments), run)


def _reason(error: OSError) -> str:
    """Return what the system said, without the path: it may be one of our own temporary files."""
    return reason_of(error).lower()
