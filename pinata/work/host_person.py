"""Serves a person who reaches into a session's herd from a terminal, beside the session's program.

What a person does there is the owner's doing: it goes through the owner's controller, and shows up
in the mailboxes as what the owner itself would have asked for.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import trio

from engine.core.errors import PinataError, UsageError
from engine.records.host import (
    CallFrame,
    HelloFrame,
    call_error,
    decode_client_frame,
    refused,
    result,
    welcome,
)
from pinata.work.frames import FrameError, FrameReader, send_frame
from pinata.work.host_calls import Asked
from pinata.work.host_terms import Terms
from pinata.work.observer import OpenedRun

_PATIENCE_S: Final = 30.0
_log = logging.getLogger(f"pinata.{__name__}")


async def serve_person(
    reader: FrameReader, stream: trio.abc.SendStream, hello: HelloFrame, terms: Terms
) -> None:
    """Answer a person's calls, one after the other, until the connection ends."""
    try:
        await _send(stream, welcome(terms.version, [], [], None))
        while (frame := await reader.receive()) is not None:
            await _send(stream, await _answer(frame, hello, terms))
    except (FrameError, UsageError) as error:
        await _send(stream, refused(str(error)))


async def _answer(
    received: Mapping[str, Any], hello: HelloFrame, terms: Terms
) -> Mapping[str, Any]:
    """Return the answer to a frame.

    Raises:
        UsageError: it is none that a person's program sends.
    """
    frame = decode_client_frame(received)
    if not isinstance(frame, CallFrame):
        raise UsageError("a person's program sends calls and nothing else")
    terms.asked()
    asked = Asked(frame.tool, frame.arguments, Path(hello.cwd), hello.trust, hello.owner)
    try:
        answer = await terms.perform(asked, _carries_no_run, _tells_nothing)
    except PinataError as error:
        return call_error(frame.id, str(error))
    except Exception as error:  # noqa: BLE001 - a call's boundary: the runs and agents here go on
        _log.exception("a call of %s broke off", frame.tool)
        kind = type(error).__name__
        return call_error(frame.id, f"{frame.tool} broke off by a fault of pinata: {kind}")
    return result(frame.id, answer, None, terms.text_of(frame.tool, answer))


async def _send(stream: trio.abc.SendStream, frame: Mapping[str, Any]) -> None:
    await send_frame(stream, frame, patience_s=_PATIENCE_S)


def _carries_no_run(_: OpenedRun) -> None:
    """Hear of a run; what a person calls here has none."""


async def _tells_nothing(_number: int, _message: str) -> None:
    """Hear how a call comes along; nobody is told."""
