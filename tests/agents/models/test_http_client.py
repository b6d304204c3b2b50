from collections.abc import AsyncIterator

import httpx2
import pytest
import trio
import trio.testing

from agents.models.http_client import ByteStream, translated
from agents.models.wire import DroppedError, MalformedError


class Body(httpx2.AsyncByteStream):
    """Three parts, however often it is closed before they are read."""

    def __init__(self, *, breaks: bool = False, hangs: bool = False) -> None:
        self.breaks, self.hangs = breaks, hangs
        self.is_closed, self.is_ended = False, False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in (b"one", b"two", b"three"):
            await trio.lowlevel.checkpoint()
            yield part
        self.is_ended = True

    async def aclose(self) -> None:
        self.is_closed = True
        if self.hangs:
            await trio.sleep_forever()
        if self.breaks:
            raise OSError("gone")


async def test_parts_come_one_by_one_and_then_nothing() -> None:
    stream = ByteStream(httpx2.Response(200, stream=Body()))
    assert [await stream.read() for _ in range(4)] == [b"one", b"two", b"three", None]


@pytest.mark.parametrize("breaks", [False, True])
async def test_a_stream_is_closed_and_brought_to_its_end_also_when_cancelled(breaks: bool) -> None:  # noqa: FBT001 - a case of the table
    body = Body(breaks=breaks)
    stream = ByteStream(httpx2.Response(200, stream=body))
    assert await stream.read() == b"one"
    with trio.CancelScope() as scope:
        scope.cancel()
        await stream.finish()
    assert (body.is_closed, body.is_ended) == (True, True)


async def test_a_connection_that_does_not_close_is_given_up(
    autojump_clock: trio.testing.MockClock,
) -> None:
    await ByteStream(httpx2.Response(200, stream=Body(hangs=True))).finish()
    assert trio.current_time() == pytest.approx(1.0)


class LibraryError(Exception):
    pass


class LostError(LibraryError):
    pass


def raise_under(top: Exception, cause: Exception | None) -> None:
    with translated((LibraryError,), lost=(LostError,)):
        raise top from cause


@pytest.mark.parametrize(
    ("raised", "cause", "expected"),
    [
        (LostError("lost"), None, DroppedError("lost")),
        (LostError("lost:"), OSError("no route"), DroppedError("lost: no route")),
        (LostError("lost"), MalformedError("too large"), MalformedError("too large")),
        (MalformedError("too large"), None, MalformedError("too large")),
        (LibraryError("odd"), None, MalformedError("odd")),
        (httpx2.ReadTimeout(""), None, DroppedError("ReadTimeout")),
        (httpx2.ReadError("reset"), None, DroppedError("reset")),
        (httpx2.StreamClosed(), None, MalformedError(str(httpx2.StreamClosed()))),
    ],
    ids=lambda value: repr(value) if isinstance(value, Exception) else "-",
)
def test_a_fault_is_judged_by_what_lies_under_it(
    raised: Exception, cause: Exception | None, expected: Exception
) -> None:
    with pytest.raises(type(expected)) as caught:
        raise_under(raised, cause)
    assert type(caught.value) is type(expected)
    assert str(caught.value) == str(expected)


def test_a_mistake_of_ours_is_none_of_the_server() -> None:
    with pytest.raises(KeyError):
        raise_under(KeyError("ours"), None)
