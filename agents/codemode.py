"""The tool `codemode`: a script of the model's, in Python, that calls the agent's own tools.

A script reaches nothing but those tools, and reaches them as the model does: each of its calls goes
through the loop, which guards, counts and notes it. Calls run one after another.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import trio
from pydantic import Field

from agents.budget import BudgetKind
from agents.filetools.answer import BYTE_LIMIT, LINE_LIMIT, keep_last, with_notes
from agents.filetools.arguments import ArgumentsError, Text, decode_arguments
from agents.filetools.tool import ToolAnswer
from agents.loadout import CEILINGS, CODEMODE
from agents.models.characters import whole_characters
from agents.models.port import ToolDeclaration
from agents.sandbox import SandboxError, ScriptCall, ScriptDone, ScriptFailed
from agents.schema import describe
from agents.submission import SUBMIT_RESULT
from agents.toolbox import NestedCall, ScriptTool
from engine.records.request import Request
from engine.system.identity import identify
from engine.system.ledger import write_down

if TYPE_CHECKING:
    from agents.sandbox_process import SandboxProcess

MAX_CODE_CHARS = 100_000
# Scripts that compute at the same time have threads of their own number, lest endless ones keep
# everybody else's work waiting for a thread.
_threads = trio.CapacityLimiter(8)
# Every tool there is: a call of one that the agent does not have is refused with reasons, as its
# own call would be.
_OTHERS = frozenset({SUBMIT_RESULT, CODEMODE}).union(*CEILINGS.values())


class CodemodeArguments(Request):
    """Arguments of codemode."""

    code: Text = Field(
        description=f"the script, in Python, at most {MAX_CODE_CHARS:,} characters long"
    )


def codemode_tool(tools: Sequence[ToolDeclaration], mark: str | None) -> ScriptTool:
    """Return the tool for an agent with `tools`.

    Args:
        tools: what its scripts may call, in order.
        mark: of the agent's processes, under which the sandbox's is written down too.
    """
    schemas = {tool.name: tool.parameters for tool in tools}
    signatures = ", ".join(_signature(name, schema) for name, schema in schemas.items())
    description = (
        "Run a Python script that calls your tools. Each is a function of its name that takes the "
        "tool's arguments by name and returns the text that you would read, or raises RuntimeError "
        f"with the reason: {signatures}. Call them directly, without await. Returns what the "
        "script prints and the value of its last expression, of long output the last "
        f"{LINE_LIMIT} lines or {BYTE_LIMIT // 1024} KB, whichever is less. A script has no files, "
        "network or environment of its own and remembers nothing of earlier ones."
    )
    runner = _Runner(schemas, mark)
    return ScriptTool(
        ToolDeclaration(CODEMODE, description, describe(CodemodeArguments)), runner.run
    )


@dataclass(frozen=True, slots=True)
class _Runner:
    """Runs the scripts of one agent.

    Attributes:
        schemas: of its tools' arguments, by name.
    """

    schemas: Mapping[str, Mapping[str, object]]
    mark: str | None

    async def run(self, arguments: object, nested: NestedCall) -> ToolAnswer | BudgetKind:
        """Run a script and return what the model reads of it; cancelling ends it at once.

        What forbids one of its calls ends it too, and is returned.
        """
        try:
            code = decode_arguments(CodemodeArguments, arguments).code
        except ArgumentsError as error:
            return ToolAnswer(f"{CODEMODE}: {error}", is_error=True)
        if len(code) > MAX_CODE_CHARS:
            fault = f"the script is longer than {MAX_CODE_CHARS:,} characters"
            return ToolAnswer(f"{CODEMODE}: {fault}; send it in parts", is_error=True)
        printed = _Printed()
        ended = await self._run_watched(code, printed, nested)
        if isinstance(ended, BudgetKind):
            return ended
        return await trio.to_thread.run_sync(_answer, printed, ended)

    async def _run_watched(
        self, code: str, printed: "_Printed", nested: NestedCall
    ) -> ScriptDone | ScriptFailed | BudgetKind:
        """Run a script beside a watch that kills its sandbox when this is cancelled, or over."""
        sandbox = await trio.to_thread.run_sync(self._prepare, printed)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_kill_at_end, sandbox)
                ended = await self._lead(sandbox, code, nested)
                nursery.cancel_scope.cancel()
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(sandbox.close)
        return ended

    def _prepare(self, printed: "_Printed") -> "SandboxProcess":
        from agents.sandbox_process import SandboxProcess  # noqa: PLC0415 - its library is large

        return SandboxProcess(tuple(self.schemas), _OTHERS, printed.add)

    async def _lead(
        self, sandbox: "SandboxProcess", code: str, nested: NestedCall
    ) -> ScriptDone | ScriptFailed | BudgetKind:
        fault = await trio.to_thread.run_sync(self._open, sandbox)
        if fault is not None:
            return ScriptFailed(f"scripts cannot be run here; call your tools directly: {fault}")
        step = await trio.to_thread.run_sync(sandbox.start, code, limiter=_threads)
        while isinstance(step, ScriptCall):
            answer = await self._call(step, nested)
            if isinstance(answer, BudgetKind):
                return answer
            text = whole_characters(answer.text)
            reply = sandbox.refuse if answer.is_error else sandbox.give
            step = await trio.to_thread.run_sync(reply, text, limiter=_threads)
        return step

    def _open(self, sandbox: "SandboxProcess") -> str | None:
        """Start the sandbox's process and write it down; return why that cannot be, or None."""
        try:
            pid = sandbox.open()
        except SandboxError as error:
            return str(error)
        identity = identify(pid)
        if self.mark is not None and identity is not None:
            write_down(self.mark, identity)
        return None

    async def _call(self, call: ScriptCall, nested: NestedCall) -> ToolAnswer | BudgetKind:
        try:
            arguments = self._arguments(call)
        except ArgumentsError as error:
            return ToolAnswer(f"{call.tool}: {error}", is_error=True)
        return await nested(call.tool, arguments)

    def _arguments(self, call: ScriptCall) -> dict[str, object]:
        """Return a call's arguments by name; they may be anything.

        Raises:
            ArgumentsError: one has no name and it is not clear which it is, or is given twice.
        """
        known = self.schemas.get(call.tool, {})
        names = _positional(known)
        if len(call.positional) > len(names) and known:
            listed = ", ".join(names)
            raise ArgumentsError(f"only {listed} can be given without a name; name the others")
        given: dict[str, object] = dict(zip(names, call.positional, strict=False))
        twice = given.keys() & call.named.keys()
        if twice:
            raise ArgumentsError(f"{', '.join(sorted(twice))} is given twice")
        return given | dict(call.named)


async def _kill_at_end(sandbox: "SandboxProcess") -> None:
    try:
        await trio.sleep_forever()
    finally:
        sandbox.kill()


class _Printed:
    """Keeps the end of what a script prints, as much of it as a model is shown."""

    def __init__(self) -> None:
        self._pieces: deque[str] = deque()
        self._chars = 0
        self.is_whole = True

    def add(self, text: str) -> None:
        self._pieces.append(text)
        self._chars += len(text)
        # A character takes a byte at least, so what is dropped here would not be shown anyway.
        while self._chars - len(self._pieces[0]) > BYTE_LIMIT:
            self._chars -= len(self._pieces.popleft())
            self.is_whole = False

    @property
    def text(self) -> str:
        return "".join(self._pieces)


def _answer(printed: _Printed, ended: ScriptDone | ScriptFailed) -> ToolAnswer:
    text, notes = printed.text, []
    failed = isinstance(ended, ScriptFailed)
    if not isinstance(ended, ScriptFailed) and ended.value is not None:
        text += "\n" * (text != "" and not text.endswith("\n")) + ended.value
    kept = keep_last(text)
    if kept.cut:
        notes.append(f"only the last {BYTE_LIMIT} bytes are shown")
    elif not (kept.complete and printed.is_whole):
        notes.append(f"only the last {len(kept.lines)} lines are shown")
    if isinstance(ended, ScriptFailed):
        notes.append(ended.message)
    return ToolAnswer(with_notes(kept.text or "(no output)", notes), is_error=failed)


def _properties(schema: Mapping[str, object]) -> list[str]:
    properties = schema.get("properties")
    return list(properties) if isinstance(properties, Mapping) else []


def _required(schema: Mapping[str, object]) -> list[str]:
    required = schema.get("required")
    return (
        [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    )


def _positional(schema: Mapping[str, object]) -> list[str]:
    """Return the arguments that need no name: the required ones, else the first."""
    return _required(schema) or _properties(schema)[:1]


def _signature(name: str, schema: Mapping[str, object]) -> str:
    required = _required(schema)
    listed = [each if each in required else f"{each}=None" for each in _properties(schema)]
    return f"{name}({', '.join(listed)})"
