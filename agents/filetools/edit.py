"""The edit tool: exact replacements in one file, all of them or none."""

import trio

from agents.filetools.arguments import EditArguments
from agents.filetools.replacement import replace_texts
from agents.filetools.resolve import locate_target
from agents.filetools.target import open_target
from agents.filetools.tool import ToolAnswer, ToolContext, ToolFaultError, build
from engine.core.quote import quote_value

SIZE_LIMIT_BYTES = 16 << 20


async def _edit(context: ToolContext, arguments: EditArguments) -> ToolAnswer:
    return await trio.to_thread.run_sync(_change, context, arguments)


def _change(context: ToolContext, arguments: EditArguments) -> ToolAnswer:
    shown = quote_value(arguments.path)
    place = locate_target(arguments.path, context.root, context.home)
    with open_target(place, shown, create_parents=False, identity=context.identity) as target:
        if target.permissions is None:
            raise ToolFaultError(f"there is no {shown}; write makes new files")
        try:
            # Decoded as bytes, because reading as text would translate line ends.
            original = target.read(SIZE_LIMIT_BYTES).decode()
        except UnicodeDecodeError:
            raise ToolFaultError(f"{shown} is not UTF-8 text, which edit needs; use bash") from None
        target.replace(replace_texts(original, arguments.edits, shown).encode())
    count = len(arguments.edits)
    return ToolAnswer(f"replaced {count} text{'s' if count > 1 else ''} in {shown}")


EDIT = build(
    _edit,
    "edit",
    description="Replace texts in one file. Each oldText must occur exactly once in the file as it "
    "is now, and the places must not overlap; either all replacements are made or none. Put all "
    "changes to one file into one call, and keep each oldText as short as is unambiguous.",
    arguments=EditArguments,
)
