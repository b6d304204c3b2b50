"""The write tool: a whole file, new or in place of an old one."""

import trio

from agents.filetools.arguments import WriteArguments
from agents.filetools.resolve import locate_target
from agents.filetools.target import open_target
from agents.filetools.tool import ToolAnswer, ToolContext, build
from engine.core.quote import quote_value


async def _write(context: ToolContext, arguments: WriteArguments) -> ToolAnswer:
    return await trio.to_thread.run_sync(_put, context, arguments)


def _put(context: ToolContext, arguments: WriteArguments) -> ToolAnswer:
    place = locate_target(arguments.path, context.root, context.home)
    shown = quote_value(arguments.path)
    data = arguments.content.encode()
    with open_target(place, shown, create_parents=True, identity=context.identity) as target:
        target.replace(data)
    verb = "made" if target.permissions is None else "replaced"
    return ToolAnswer(f"{verb} {shown} with {len(data)} bytes")


WRITE = build(
    _write,
    "write",
    description="Write a whole file: makes it, with its parent directories, or replaces what was "
    "there. To change a part of a file use edit.",
    arguments=WriteArguments,
)
