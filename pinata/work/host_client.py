"""Reaches the host of a session, and starts one where there is none."""

import logging
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import trio

import pinata
from engine.core.errors import ExternalError, PinataError, UsageError
from engine.records.host import HostRecordV1, decode_started, hello
from engine.system import locks, sockets
from engine.system.detached import start_detached
from engine.system.holder import read_live_holder
from engine.system.log_file import open_log_file
from pinata.work.blocking import in_thread
from pinata.work.frames import FrameError, send_frame
from pinata.work.host_record import find_host
from pinata.work.session import Session, prepare_session

# For a host that serves already; one that is being started may meet others that are, under load.
ATTACH_LIMIT_S: Final = 15.0
START_LIMIT_S: Final = 60.0
NUDGE_LIMIT_S: Final = 1.0
# Nobody tells when a host that has begun serves, or one that leaves is gone.
_PAUSE_S = 0.05
_CHUNK_BYTES = 64 << 10
# Nobody who started a host by mistake shall be taken for an agent, or an agent for nobody.
_AGENT_MARK = "PINATA_AGENT"
# There `-m` finds this very program, whatever is on the path.
_PLACE: Final = Path(pinata.__file__).resolve().parents[1]
_log = logging.getLogger(f"pinata.{__name__}")


@dataclass(frozen=True, slots=True)
class Attachment:
    """A connection to a host that answers.

    Attributes:
        heard: what the host has said already; a whole frame at least.
    """

    stream: trio.SocketStream
    heard: bytes


async def attach(
    session: Session, environment: Mapping[str, str], first: Mapping[str, Any]
) -> Attachment:
    """Return a connection to the session's host, which is started if there is none.

    Args:
        session: whose host.
        environment: of the host, if it is started; all its calls see that.
        first: the client's hello; the token is added.

    Raises:
        ExternalError: no host could be started, or none answers in time.
        PinataError: what lies in the session's folder is damaged, or not this user's.
    """
    known: HostRecordV1 | None = None
    last_s = trio.current_time() + START_LIMIT_S
    with trio.move_on_after(ATTACH_LIMIT_S) as patience:
        await prepare_session(session)
        while True:
            known = await find_host(session)
            if known is not None:
                attachment = await _introduce(known, first)
                if attachment is not None:
                    return attachment
            patience.deadline = last_s
            await _start(session, environment, known)
            patience.deadline = min(last_s, trio.current_time() + ATTACH_LIMIT_S)
    if known is None:
        raise ExternalError(await _why_none_serves(session))
    raise ExternalError(
        f"the host of this session, process {known.pid}, does not answer; "
        f"see {session.log_file}, or end it"
    )


async def _why_none_serves(session: Session) -> str:
    holder = await trio.to_thread.run_sync(read_live_holder, session.lock)
    if holder is None:
        return f"the host of this session does not start; see {session.log_file}"
    return (
        f"this session is held by {holder}, which cannot be reached; see {session.log_file}, "
        "or end it"
    )


async def nudge(session: Session) -> None:
    """Have the session's host, if one lives, look for what is to be told.

    Never fails, and waits no longer than a second: a host finds out sooner or later.
    """
    try:
        with trio.move_on_after(NUDGE_LIMIT_S):
            record = await find_host(session)
            if record is None:
                return
            async with await sockets.connect(Path(record.socket)) as stream:
                frame = hello(record.token, "nudge", session.key)
                await send_frame(stream, frame, patience_s=NUDGE_LIMIT_S)
                await _receive(stream)
    except PinataError as error:
        _log.debug("session %s: its host was not nudged: %s", session.key, error)


async def _introduce(record: HostRecordV1, first: Mapping[str, Any]) -> Attachment | None:
    """Say hello to a host; None when it is dead, or leaves at this very moment."""
    try:
        stream = await sockets.connect(Path(record.socket))
    except sockets.NobodyListensError:
        return None
    heard = b""
    try:
        with suppress(FrameError):
            frame = {**first, "token": record.token}
            await send_frame(stream, frame, patience_s=ATTACH_LIMIT_S)
            while b"\n" not in heard and (data := await _receive(stream)):
                heard += data
    finally:
        if b"\n" not in heard:
            await trio.aclose_forcefully(stream)
    return Attachment(stream, heard) if b"\n" in heard else None


async def _receive(stream: trio.SocketStream) -> bytes:
    try:
        return bytes(await stream.receive_some(_CHUNK_BYTES))
    except trio.BrokenResourceError:
        return b""


async def _start(
    session: Session, environment: Mapping[str, str], known: HostRecordV1 | None
) -> None:
    """Start a host, unless somebody else has done so since `known` was found.

    Raises:
        ExternalError: it could not be started, or ended before it served.
    """
    turn = session.lock.with_name(f"{session.lock.stem}.start.lock")
    async with locks.hold(
        turn, what="the start of the session's host", holder=f"process {os.getpid()}"
    ):
        if not await _is_start_due(session, known):
            return
        said = await _spawn(session, environment)
    if said is None:
        raise ExternalError(f"the host of this session ended at once; see {session.log_file}")
    try:
        answer = decode_started(said)
    except UsageError as error:
        # Something in its environment writes to stdout before it does.
        raise ExternalError(
            f"the host of this session said what no host says; see {session.log_file}"
        ) from error
    if answer.error is not None:
        raise ExternalError(f"the host of this session cannot start: {answer.error}")


async def _is_start_due(session: Session, known: HostRecordV1 | None) -> bool:
    """Return whether nobody is the host, once no host is on its way in or out.

    Whoever started one may have been killed meanwhile.
    """
    while await find_host(session) == known:
        if await trio.to_thread.run_sync(read_live_holder, session.lock) is None:
            return True
        await trio.sleep(_PAUSE_S)
    return False


async def _spawn(session: Session, environment: Mapping[str, str]) -> bytes | None:
    """Start a host; return what it says once it serves, or cannot."""
    argv = (sys.executable, "-m", "pinata", "host", f"--session={session.key}")
    env = {name: value for name, value in environment.items() if name != _AGENT_MARK}
    log = await in_thread(
        lambda: open_log_file(session.log_file), "cannot write the log of the session's host"
    )
    try:
        return await start_detached(argv, cwd=_PLACE, env=env, log=log)
    finally:
        os.close(log)
