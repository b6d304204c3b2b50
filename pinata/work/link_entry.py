"""Finds the process that owns a run, and has a connection to it be let in."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import trio

from engine.core.errors import ConflictError, CorruptionError
from engine.core.ids import RunId
from engine.records.link import LIMIT_BYTES, VERSION, LinkV1, Role, decode_link
from engine.store import RunFolder
from engine.system import files
from engine.system.sockets import NobodyListensError, connect
from pinata.work.frames import FrameError, FrameReader, send_frame

PATIENCE_S: Final = 10.0
# The owner of the run is this user too, but not necessarily in order.
_FRAME_LIMIT_BYTES = 256 << 20
_WELCOME_DEADLINE_S = 5.0


class NoLinkError(ConflictError):
    """Nobody serves the run: its owner has died, or has nothing more to say of it."""

    def __init__(self, run: RunId) -> None:
        self.run = run
        super().__init__(
            f"no live process owns run {run}, so nothing of it is running: "
            f"`pinata rerun {run}` starts again what was lost"
            f", `pinata resume {run}` goes on without it"
        )


class LinkLostError(ConflictError):
    """Whoever served the run is gone, or has stopped to speak."""

    def __init__(self, run: RunId) -> None:
        self.run = run
        super().__init__(
            f"the process that owns run {run} is gone or does not answer: "
            f"`pinata status {run}` tells how the run stands"
        )


@asynccontextmanager
async def enter(
    folder: RunFolder, role: Role
) -> AsyncIterator[tuple[trio.abc.Stream, FrameReader]]:
    """Have a connection, inside the block, that the owner of a run has let in.

    Raises:
        NoLinkError: nobody serves the run.
        LinkLostError: its owner does not answer.
        ConflictError: it has too many viewers already.
    """
    run = folder.run
    link = await trio.to_thread.run_sync(_read_link, folder)
    try:
        with trio.fail_after(_WELCOME_DEADLINE_S):
            stream, reader = await _enter(link, role)
    except NobodyListensError as error:
        raise NoLinkError(run) from error
    except (trio.TooSlowError, FrameError) as error:
        raise LinkLostError(run) from error
    async with stream:
        yield stream, reader


def _read_link(folder: RunFolder) -> LinkV1:
    """Return where the run is served; blocks.

    Raises:
        NoLinkError: nowhere, or nobody can tell.
    """
    try:
        link = decode_link(files.read_regular(folder.link_file, LIMIT_BYTES), "link.json")
    except (FileNotFoundError, CorruptionError) as error:
        raise NoLinkError(folder.run) from error
    return link


async def _enter(link: LinkV1, role: Role) -> tuple[trio.abc.Stream, FrameReader]:
    """Return a connection that was let in.

    Raises:
        NobodyListensError: there is nobody who could let it in.
        ConflictError: it was not let in, for a reason.
        FrameError: it was not let in.
    """
    stream = await connect(Path(link.socket))
    try:
        reader = FrameReader(stream, _FRAME_LIMIT_BYTES)
        hello = {"type": "hello", "v": VERSION, "token": link.token, "role": role, "run": link.run}
        await send_frame(stream, hello, patience_s=PATIENCE_S)
        _hear_welcome(await reader.receive(), link)
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return stream, reader


def _hear_welcome(said: dict[str, Any] | None, link: LinkV1) -> None:
    if said is None:
        raise NobodyListensError(Path(link.socket))
    if said.get("type") == "error":
        raise ConflictError(str(said.get("error")))
