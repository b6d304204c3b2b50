"""Tells a host's clients from strangers by their first frame."""

import hmac
import logging
from typing import Any, Final

import trio

from engine.core.errors import UsageError
from engine.records.host import HelloFrame, decode_hello, refused
from pinata.work.frames import FrameError, FrameReader, send_frame

HELLO_WAIT_S: Final = 5.0
HELLO_LIMIT_BYTES: Final = 64 << 10
# More of them at once are no clients of ours.
MOST_STRANGERS: Final = 32
_PATIENCE_S = 1.0
_log = logging.getLogger(f"pinata.{__name__}")


class Door:
    """Lets in who knows the token; everybody else is sent away, most of them without a word."""

    def __init__(self, session: str, token: str) -> None:
        """Begin without a stranger.

        Args:
            session: the key of the session that is served.
            token: what a client must show.
        """
        self._session = session
        self._token = token.encode()
        self._strangers = 0

    async def greet(self, reader: FrameReader, stream: trio.abc.SendStream) -> HelloFrame | None:
        """Return the hello of a client; None for whoever is none, and is to be closed."""
        if self._strangers >= MOST_STRANGERS:
            _log.warning("sent away: %s others have not said hello", MOST_STRANGERS)
            return None
        self._strangers += 1
        try:
            return await self._hello(reader, stream)
        except FrameError as error:
            _log.info("sent away: %s", error)
            return None
        finally:
            self._strangers -= 1

    async def _hello(self, reader: FrameReader, stream: trio.abc.SendStream) -> HelloFrame | None:
        frame = None
        with trio.move_on_after(HELLO_WAIT_S):
            frame = await reader.receive()
        if frame is None or not self._is_known(frame.get("token")):
            _log.info("sent away: no token")
            return None
        try:
            return self._checked(frame)
        except UsageError as error:
            await send_frame(stream, refused(str(error)), patience_s=_PATIENCE_S)
            return None

    def _is_known(self, token: object) -> bool:
        # As bytes: text that is not ASCII cannot be compared in constant time.
        shown = token.encode("utf-8", "replace") if isinstance(token, str) else b""
        return hmac.compare_digest(shown, self._token)

    def _checked(self, frame: dict[str, Any]) -> HelloFrame:
        hello = decode_hello(frame)
        if hello.session != self._session:
            raise UsageError("hello: this is the host of another session")
        return hello
