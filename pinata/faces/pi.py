"""The bridge between a Pi session and its host: lines from stdin to a socket, and back."""

import json
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

import trio

from engine.core.errors import PinataError, UsageError
from engine.records.host import refused
from engine.records.json_text import decode_json
from engine.system.nursery import open_flat_nursery
from pinata import app
from pinata.faces.command import Command
from pinata.faces.wire import LineReader, LineWriter, open_wire
from pinata.work.host_client import Attachment, attach
from pinata.work.session import Session

_CHUNK_BYTES = 64 << 10


async def _pi(given: Namespace, environment: Mapping[str, str]) -> int:
    async with open_wire() as (reader, writer):
        try:
            app.refuse_agents(environment)
            session = Session.of(given.session, environment)
            line = await reader.receive()
            if line is None:
                return 0
            attachment = await attach(session, environment, _hello(line))
        except PinataError as error:
            # A program reads stdout; a person who tries this out reads stderr.
            await writer.write(json.dumps(refused(str(error))) + "\n")
            raise
        async with attachment.stream as stream, open_flat_nursery() as nursery:
            nursery.start_soon(_send, reader, stream)
            await _receive(attachment, writer)
            nursery.cancel_scope.cancel()
    return 0


def _hello(line: str) -> dict[str, Any]:
    frame = decode_json(line.encode("utf-8", "replace"), "stdin")
    if not isinstance(frame, dict):
        raise UsageError("stdin: the first line is not a frame: a session's program starts this")
    return frame


async def _send(reader: LineReader, stream: trio.abc.HalfCloseableStream) -> None:
    """Pass on what the session says; its end is passed on too, and the host closes then."""
    try:
        while (line := await reader.receive()) is not None:
            await stream.send_all(f"{line}\n".encode())
        await stream.send_eof()
    except trio.BrokenResourceError:
        return  # the host is gone, which the other direction notices


async def _receive(attachment: Attachment, writer: LineWriter) -> None:
    """Pass on what the host says, until it has closed the connection."""
    data = attachment.heard
    while data:
        await writer.write_bytes(data)
        try:
            data = bytes(await attachment.stream.receive_some(_CHUNK_BYTES))
        except trio.BrokenResourceError:
            return


COMMANDS: Mapping[str, Command] = {"pi": _pi}
