"""Lines between two processes: whole, in order, and dropped once the peer has left."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import memory_stream_one_way_pair, memory_stream_pump

from pinata.faces import wire
from pinata.faces.wire import LineReader, LineWriter, open_wire


async def lines_of(*chunks: bytes) -> list[str]:
    send, receive = memory_stream_one_way_pair()
    received: list[str] = []

    async def read() -> None:
        received.extend([line async for line in LineReader(receive)])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        for chunk in chunks:
            await send.send_all(chunk)
            await trio.testing.wait_all_tasks_blocked()
        await send.aclose()
    return received


async def test_lines_come_whole_however_their_bytes_arrive() -> None:
    assert await lines_of(b"one\ntw", b"o", b"\n\nthree \xe2\x82", b"\xac\nfour") == [
        "one",
        "two",
        "",
        "three €",
    ]


async def test_bytes_that_are_no_text_spoil_no_other_line() -> None:
    assert await lines_of(b"\xff\nnext\n") == ["\N{REPLACEMENT CHARACTER}", "next"]


async def test_line_longer_than_any_message_ends_the_conversation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wire, "LINE_LIMIT_BYTES", 8)
    assert await lines_of(b"12345678\n", b"123456789", b"0\nnext\n") == ["12345678"]


async def test_peer_that_has_left_is_the_end_for_who_reads_and_nothing_for_who_writes() -> None:
    send, receive = memory_stream_one_way_pair()
    send.send_all_hook = None
    writer = LineWriter(send)
    await writer.write("one\n")
    await writer.flush()
    memory_stream_pump(send, receive)
    assert await receive.receive_some() == b"one\n"
    await receive.aclose()
    for _ in range(2):
        with trio.fail_after(5):
            await LineWriter(_Broken()).write("two\n")
    broken = LineWriter(_Broken())
    await broken.write("three\n")
    await broken.write("four\n")
    assert [line async for line in LineReader(_Broken())] == []


class _Broken(trio.abc.Stream):
    """A stream whose peer has left."""

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        raise trio.BrokenResourceError

    async def wait_send_all_might_not_block(self) -> None:
        raise trio.BrokenResourceError

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        raise trio.BrokenResourceError

    async def send_eof(self) -> None:
        raise AssertionError

    async def aclose(self) -> None:
        raise AssertionError


@asynccontextmanager
async def standard_pipes() -> AsyncIterator[tuple[int, int]]:
    """Have pipes for stdin and stdout inside the block: yield where to write and to read."""
    kept = os.dup(0), os.dup(1)
    stdin, feed = os.pipe()
    said, stdout = os.pipe()
    os.dup2(stdin, 0)
    os.dup2(stdout, 1)
    try:
        yield feed, said
    finally:
        os.dup2(kept[0], 0)
        os.dup2(kept[1], 1)
        for fd in (*kept, stdin, said, stdout):
            os.close(fd)


async def test_messages_alone_pass_stdin_and_stdout(capfd: pytest.CaptureFixture[str]) -> None:
    async with standard_pipes() as (feed, said):
        async with open_wire() as (reader, writer):
            os.write(feed, b"hello\n")
            os.close(feed)
            assert os.read(0, 100) == b""  # whoever else reads
            os.write(1, b"stray\n")
            assert [line async for line in reader] == ["hello"]
            await writer.write("answer\n")
        os.write(1, b"after\n")
        assert os.read(said, 100) == b"answer\nafter\n"
    assert capfd.readouterr().err == "stray\n"
