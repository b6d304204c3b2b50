"""Who is let in at the socket of a run."""

import hmac
from contextlib import suppress
from typing import Final

import trio

from engine.records.link import HelloFrame, decode_hello
from pinata.work.frames import FrameError, FrameReader
from pinata.work.linked_run import LinkedRun

HELLO_DEADLINE_S: Final = 5.0
HELLO_LIMIT_BYTES: Final = 64 << 10
# A message of 64 KiB has six times as many bytes when every character of it is escaped.
REQUEST_LIMIT_BYTES: Final = 512 << 10


async def admit(run: LinkedRun, stream: trio.abc.Stream) -> tuple[FrameReader, HelloFrame] | None:
    """Return what a connection is read with, and how it began; None when it is not let in.

    Whoever does not begin with the right words, and soon, is left without an answer.
    """
    reader = FrameReader(stream, HELLO_LIMIT_BYTES)
    hello = None
    with trio.move_on_after(HELLO_DEADLINE_S), suppress(FrameError):
        hello = decode_hello(await reader.receive())
    if hello is None or not _may_enter(run, hello):
        return None
    reader.limit_bytes = REQUEST_LIMIT_BYTES
    return reader, hello


def _may_enter(run: LinkedRun, hello: HelloFrame) -> bool:
    token = hello.token.encode("utf-8", "replace")
    return hmac.compare_digest(token, run.token.encode()) and hello.run == run.run.id
