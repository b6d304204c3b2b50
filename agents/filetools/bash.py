"""The bash tool: a shell script, run in the working directory.

What the script writes to its two outputs comes back as one text in the order in which it was
written, as on a terminal. Two pipes cannot promise that, so the script's shell is told to join
them before the script begins, on the script's first line, so that line numbers stay right.
"""

import os
import shutil
import signal
import tempfile
from pathlib import Path

import trio

from agents.filetools.answer import BYTE_LIMIT, LINE_LIMIT, Kept, keep_last, with_notes
from agents.filetools.arguments import BashArguments, BoundedBashArguments
from agents.filetools.echo import Echo
from agents.filetools.target import refuse_replaced
from agents.filetools.tool import ToolAnswer, ToolContext, ToolFaultError, build
from engine.system.nursery import open_flat_nursery
from engine.system.output import ToFiles
from engine.system.process import ProcessExit, ProcessSpec, run

OUTPUT_LIMIT_BYTES = 64 << 20
# Real-time signals have numbers only.
_SIGNAL_NAMES = {known.value: known.name for known in signal.Signals}
_JOIN_OUTPUTS = "exec 2>&1; "


async def _bash(context: ToolContext, arguments: BashArguments) -> ToolAnswer:
    if "\0" in arguments.command:
        raise ToolFaultError("the command holds a NUL character, which no shell takes")
    await trio.to_thread.run_sync(_ensure_place, context)
    # Files, and not memory, because what was written before a time limit must be shown too.
    folder = await trio.to_thread.run_sync(_make_folder, context)
    try:
        return await _run(context, arguments, folder)
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(shutil.rmtree, folder, True)  # noqa: FBT003 - positional only here


async def _run(context: ToolContext, arguments: BashArguments, folder: Path) -> ToolAnswer:
    echo = Echo(context.update)
    output = ToFiles(folder / "output", folder / "errors", OUTPUT_LIMIT_BYTES, echo.take)
    spec = ProcessSpec(
        argv=(context.shell, "-c", _JOIN_OUTPUTS + arguments.command),
        cwd=context.root,
        env=context.env,
        output=output,
        mark=context.mark,
    )
    ended = None
    async with open_flat_nursery() as nursery:
        nursery.start_soon(echo.pass_on)
        with trio.move_on_after(arguments.limit_s):
            ended = await run(spec)
        nursery.cancel_scope.cancel()
    kept = await trio.to_thread.run_sync(_end_of, output)
    notes = []
    if not kept.complete:
        notes.append(
            f"only the last {len(kept.lines)} lines are shown"
            if not kept.cut
            else f"only the last {BYTE_LIMIT} bytes are shown"
        )
        notes.append("write long output to a file and read the part that matters")
    if ended is None:
        notes.append(f"the command was stopped after its {arguments.limit_s:g} seconds")
    else:
        notes += _ending(ended)
    is_error = ended is None or ended.code != 0 or ended.overflowed
    text = kept.text or "(no output)"
    return ToolAnswer(with_notes(text, notes), is_error=is_error)


def _ending(ended: ProcessExit) -> list[str]:
    notes = []
    if ended.pipes_held:
        notes.append(
            "a process that it left behind still held its output and was not waited for: "
            "background services are not supported"
        )
    if ended.overflowed:
        notes.append(f"the command was stopped: it wrote more than {OUTPUT_LIMIT_BYTES} bytes")
    elif ended.signal is not None:
        name = _SIGNAL_NAMES.get(ended.signal, f"signal {ended.signal}")
        notes.append(f"the command was ended by {name}")
    elif ended.code is None:
        notes.append("the command could not be ended and was left alone")
    elif ended.code != 0:
        notes.append(f"the command exited with code {ended.code}")
    return notes


def _ensure_place(context: ToolContext) -> None:
    # Of the name itself: the working directory was handed out as a folder and not as a link.
    refuse_replaced(context.root.lstat(), context.identity)


def _make_folder(context: ToolContext) -> Path:
    return Path(tempfile.mkdtemp(prefix="pinata-bash-", dir=context.env.get("TMPDIR") or "/tmp"))  # noqa: S108 - the name below it is unguessable


def _end_of(output: ToFiles) -> Kept:
    """Return the last lines of what was written; a shell that never joined its outputs has two."""
    text, whole = "", True
    for path in (output.stdout, output.stderr):
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - BYTE_LIMIT - 1))
            data = file.read()
        if len(data) > BYTE_LIMIT:
            # It may begin in the middle of a line; a line end at its beginning is a whole line's.
            whole, data = False, data[data.find(b"\n", 0, -1) + 1 :]
        text += data.decode("utf-8", "replace")
    kept = keep_last(text)
    return kept if whole else Kept(kept.lines, complete=False, cut=kept.cut)


_DESCRIPTION = (
    "Run a shell script in the working directory. Returns what it wrote, of long output the last "
    f"{LINE_LIMIT} lines or {BYTE_LIMIT // 1024} KB, whichever is less. Processes that it starts "
    "end with it."
)
BASH = build(_bash, "bash", description=_DESCRIPTION, arguments=BashArguments)
# For agents whose time nobody else limits.
BOUNDED_BASH = build(_bash, "bash", description=_DESCRIPTION, arguments=BoundedBashArguments)
