import os
import signal
from pathlib import Path

import pytest
import trio

from engine.system.duplex import Duplex, open_duplex
from engine.system.launch import LaunchError
from engine.system.output import ToMemory
from engine.system.process import ProcessSpec
from tests.support.programs import is_running, python, shell, spec

GRACE_S = 5.0


async def said(talk: Duplex) -> bytes:
    """Return all that the program says until the end."""
    parts = []
    while part := await talk.stream.receive_some():
        parts.append(part)
    return b"".join(parts)


async def test_what_is_sent_is_read_and_what_is_written_is_received() -> None:
    async with open_duplex(spec(("cat",)), grace_s=GRACE_S) as talk:
        for text in (b"one\n", b"two\n"):
            await talk.stream.send_all(text)
            assert await talk.stream.receive_some() == text
    ended = await talk.wait_exit()
    assert (ended.code, ended.stdout, ended.pipes_held) == (0, b"", False)


async def test_more_than_the_socket_holds_goes_both_ways() -> None:
    data = os.urandom(4 << 20)
    async with open_duplex(spec(("cat",)), grace_s=GRACE_S) as talk:
        received = bytearray()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(talk.stream.send_all, data)
            while len(received) < len(data):
                received += await talk.stream.receive_some()
    assert bytes(received) == data


async def test_stream_ends_with_the_program_and_its_stderr_is_kept() -> None:
    async with open_duplex(spec(shell("echo out; echo why >&2; exit 3")), grace_s=GRACE_S) as talk:
        assert await said(talk) == b"out\n"
        ended = await talk.wait_exit()
        assert (ended.code, ended.stderr) == (3, b"why\n")
        with pytest.raises(trio.BrokenResourceError):
            await talk.stream.send_all(b"too late")


async def test_a_stranger_that_holds_the_stream_does_not_keep_it_open() -> None:
    script = "setsid sh -c 'echo $$; exec sleep 600' 2>/dev/null </dev/null & read go"
    async with open_duplex(spec(shell(script)), grace_s=GRACE_S) as talk:
        with trio.fail_after(GRACE_S):
            stranger = int(await talk.stream.receive_some())
            await talk.stream.send_all(b"go\n")
            assert await said(talk) == b""
            await talk.wait_exit()
    assert is_running(stranger)
    os.kill(stranger, signal.SIGKILL)


async def test_who_does_not_end_with_his_stdin_is_ended_after_the_grace() -> None:
    async with open_duplex(spec(("sleep", "600")), grace_s=0.05) as talk:
        assert talk.identity is not None
    assert not is_running(talk.identity.pid)


async def test_cancelling_gives_no_grace() -> None:
    with trio.fail_after(GRACE_S), trio.CancelScope() as scope:
        async with open_duplex(spec(("sleep", "600")), grace_s=600) as talk:
            assert talk.identity is not None
            pid = talk.identity.pid
            scope.cancel()
            await trio.lowlevel.checkpoint()
    assert scope.cancelled_caught
    assert not is_running(pid)


async def test_a_block_that_raises_ends_the_program() -> None:
    pids = []

    async def break_off() -> None:
        async with open_duplex(spec(("sleep", "600")), grace_s=600) as talk:
            assert talk.identity is not None
            pids.append(talk.identity.pid)
            raise ValueError("the block")

    with pytest.raises(ValueError, match="the block"):
        await break_off()
    assert not is_running(pids[0])


async def test_a_program_that_is_not_there_is_told_before_the_block() -> None:
    with pytest.raises(LaunchError, match="cannot start 'no-such-program'"):
        async with open_duplex(spec(("no-such-program",)), grace_s=GRACE_S):
            pytest.fail("entered")


async def test_a_flood_on_stderr_is_kept_to_its_limit(tmp_path: Path) -> None:
    flood = python("import sys; sys.stderr.write('x' * (1 << 20)); print('done')")
    bounded = ProcessSpec(flood, tmp_path, spec(flood).env, output=ToMemory(1_000))
    async with open_duplex(bounded, grace_s=GRACE_S) as talk:
        assert await said(talk) == b"done\n"
        ended = await talk.wait_exit()
    assert (len(ended.stderr), ended.overflowed) == (1_000, True)
