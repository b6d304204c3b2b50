"""A host at its socket, in this process: found, nudged, refused and gone again."""

import json
import os
import shutil
import socket
import stat
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from agents.traffic import Traffic
from engine.core.errors import HeldElsewhereError
from engine.core.ids import RunId
from engine.core.limiter import Limiter
from engine.records.host import HostRecordV1, decode_host, encode_host, hello
from engine.system import locks
from engine.system.sockets import somebody_listens
from pinata.work import host, host_client
from pinata.work.host import Setting, Work, open_host
from pinata.work.host_client import attach, nudge
from pinata.work.host_server import HostServer
from pinata.work.session import Session, prepare_session
from tests.support.hosts import KEY, TOKEN, Client, Debts, Settled, Stage, at_home

RUN = RunId("0123456789abcdef")


def session_in(folder: Path) -> Session:
    return Session.of(KEY, {"XDG_STATE_HOME": str(folder)})


@asynccontextmanager
async def host_of(
    session: Session, stage: Stage | None = None, debts: Debts | None = None
) -> AsyncIterator[HostServer]:
    work = Work(stage or Stage(), debts or Debts(), at_home)
    setting = Setting({}, "1.2.3", (), Traffic(Limiter(), lambda: 0.5))
    async with open_host(session, setting, lambda _: work) as server:
        yield server


@asynccontextmanager
async def attached(session: Session) -> AsyncIterator[Client]:
    """Be a client of a host that is there already."""
    first = {"type": "hello", "v": 1, "role": "session", "session": KEY, "cwd": "/src"}
    # Without an environment a host could not be started.
    attachment = await attach(session, {}, first)
    async with attachment.stream as stream:
        client = Client(stream, attachment.heard)
        await client.expect("welcome")
        yield client


def mode_of(path: Path) -> int | None:
    return stat.S_IMODE(path.stat().st_mode) if path.exists() else None


def record_of(session: Session) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(session.host_file.read_text())
    return record


async def test_host_is_found_while_it_serves_and_leaves_nothing_but_its_lock(
    tmp_path: Path,
) -> None:
    session = session_in(tmp_path)
    async with host_of(session) as server:
        assert mode_of(session.host_file) == 0o600
        record = decode_host(session.host_file.read_bytes(), "host.json")
        assert (record.session, record.pid) == (KEY, os.getpid())
        assert mode_of(Path(record.socket)) == 0o600
        async with attached(session) as client:
            await client.send(type="goodbye", reason="quit")
            assert await client.receive() is None
        await server.wait_left()
    assert mode_of(Path(record.socket)) is None
    assert sorted(each.name for each in session.folder.iterdir()) == ["runs", "session.json"]
    async with host_of(session):
        assert record_of(session)["token"] != record.token


async def test_host_that_ends_leaves_the_address_of_another_alone(tmp_path: Path) -> None:
    session = session_in(tmp_path)
    other = HostRecordV1(session=KEY, socket="/other.sock", token="o" * 43, pid=1)
    async with host_of(session):
        session.host_file.write_bytes(encode_host(other))
    assert session.host_file.read_bytes() == encode_host(other)


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder whose path leaves room for a session's socket."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def socket_of(session: Session) -> Path:
    return Path(record_of(session)["socket"])


@pytest.mark.parametrize("what", ["host.json", "host.sock", "folder"])
@pytest.mark.parametrize("deep", ["", "deep" * 20])
async def test_host_whose_address_was_removed_can_be_found_again(
    short: Path, what: str, deep: str, caplog: pytest.LogCaptureFixture
) -> None:
    session, stage = session_in(short / deep), Stage()
    async with host_of(session, stage), attached(session) as client:
        record = session.host_file.read_bytes()
        if what == "folder":
            shutil.rmtree(session.folder)
        elif what == "host.json":
            session.host_file.unlink()
        else:
            socket_of(session).unlink()
        await client.send(type="call", id=1, tool="look", arguments={})
        # Files come and go before that, in other threads.
        with trio.fail_after(30):
            while "it is there again" not in caplog.text:
                await trio.lowlevel.checkpoint()
        assert session.host_file.exists()
        assert socket_of(session).exists()
        async with attached(session) as second:
            assert (await client.expect("displaced"))["reason"]
            await second.silence()
        assert decode_host(record, "host.json").token == record_of(session)["token"]
    assert not session.host_file.exists()


@pytest.mark.parametrize("is_told", [False, True])
async def test_host_in_whose_place_is_another_leaves_it_there(
    *, short: Path, is_told: bool
) -> None:
    session = session_in(short)
    place = short / "other" if is_told else session.folder / "host.sock"
    other = encode_host(HostRecordV1(session=KEY, socket=str(place), token="o" * 43, pid=1))
    async with host_of(session), attached(session) as client:
        socket_of(session).unlink()
        with socket.socket(socket.AF_UNIX) as living:
            living.bind(str(place))
            living.listen()
            session.host_file.write_bytes(other)
            await client.send(type="hold", id=1)
            await client.expect("result")
            # What listens there is asked whether it does: once means that the host has looked.
            living.settimeout(30)
            (await trio.to_thread.run_sync(living.accept))[0].close()
            await wait_all_tasks_blocked(0.05)
            assert session.host_file.read_bytes() == other
            assert somebody_listens(place)
        # It has gone, and left its address.
        await client.send(type="hold", id=2)
        await client.expect("result")
        with trio.fail_after(30):
            while session.host_file.read_bytes() == other:
                await trio.lowlevel.checkpoint()


async def test_address_that_is_damaged_is_left_for_somebody_to_look_at(
    short: Path, caplog: pytest.LogCaptureFixture
) -> None:
    session = session_in(short)
    async with host_of(session), attached(session) as client:
        session.host_file.write_text("damaged")
        with trio.fail_after(30):
            while "clients may not find this host" not in caplog.text:
                await client.send(type="hold", id=1)
                await client.expect("result")
    assert session.host_file.read_text() == "damaged"


async def test_host_that_cannot_be_found_again_goes_on_and_tries_later(
    short: Path, caplog: pytest.LogCaptureFixture
) -> None:
    session = session_in(short)
    async with host_of(session), attached(session) as client:
        shutil.rmtree(session.folder)
        session.folder.write_text("in its place")
        with trio.fail_after(30):
            while "clients cannot find this host" not in caplog.text:
                await client.send(type="hold", id=1)
                await client.expect("result")
            session.folder.unlink()
            while not session.host_file.exists():
                await client.send(type="hold", id=2)
                await client.expect("result")


async def test_socket_of_a_deep_folder_is_found_as_well(tmp_path: Path) -> None:
    session = session_in(tmp_path / ("deep" * 20))
    async with host_of(session), attached(session) as client:
        await client.silence()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have whoever waits for something in a thread wait but a moment."""
    monkeypatch.setattr(host, "LOCK_WAIT_S", 0.05)
    monkeypatch.setattr(host_client, "NUDGE_LIMIT_S", 0.05)


async def hold_lock(session: Session, until: trio.Event, *, task_status: Any) -> None:
    async with locks.hold(session.lock, what="the session", holder="its host, process 7"):
        task_status.started()
        await until.wait()


@pytest.mark.usefixtures("impatient")
async def test_one_host_at_a_time(tmp_path: Path) -> None:
    session, until = session_in(tmp_path), trio.Event()
    await prepare_session(session)
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(hold_lock, session, until))
        with pytest.raises(HeldElsewhereError, match="this session is held by its host, process 7"):
            async with host_of(session):
                raise AssertionError
        until.set()
    async with host_of(session):
        assert session.host_file.exists()


async def test_next_host_waits_for_one_that_is_leaving(tmp_path: Path) -> None:
    session, until = session_in(tmp_path), trio.Event()
    await prepare_session(session)
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(hold_lock, session, until))

        async def serve() -> None:
            async with host_of(session):
                assert until.is_set()

        nursery.start_soon(serve)
        await wait_all_tasks_blocked(0.01)
        until.set()


async def test_nudge_has_the_host_look_and_never_fails(tmp_path: Path) -> None:
    session, debts = session_in(tmp_path), Debts()
    await nudge(session)
    async with host_of(session, debts=debts):
        async with attached(session) as client:
            await client.silence()
            debts.owed.append(Settled(RUN))
            await nudge(session)
            assert (await client.expect("delivery"))["run"] == RUN
        kept = session.host_file.read_bytes()
    for left in (kept, b"garbage"):
        session.host_file.write_bytes(left)
        await nudge(session)
    session.host_file.unlink()
    session.host_file.mkdir()
    await nudge(session)


@pytest.mark.usefixtures("impatient")
async def test_nudge_waits_but_a_moment_for_a_host_that_is_stuck(tmp_path: Path) -> None:
    session = session_in(tmp_path)
    await prepare_session(session)
    path = tmp_path / "deaf"
    record = HostRecordV1(session=KEY, socket=str(path), token=TOKEN, pid=7)
    session.host_file.write_bytes(encode_host(record))
    with trio.socket.socket(trio.socket.AF_UNIX) as deaf:
        await deaf.bind(str(path))
        deaf.listen()
        await nudge(session)


async def test_clients_hear_that_the_host_was_ended(tmp_path: Path) -> None:
    session = session_in(tmp_path)
    async with AsyncExitStack() as serving:
        server = await serving.enter_async_context(host_of(session))
        client = await serving.enter_async_context(attached(session))
        server.stop()
        await server.wait_left()
        await server.say_goodbye()
        assert (await client.expect("refused"))["error"] == "the host of this session was ended"
        assert await client.receive() is None


async def test_connections_that_send_nothing_hold_up_nobody(tmp_path: Path) -> None:
    session = session_in(tmp_path)
    async with host_of(session):
        path = record_of(session)["socket"]
        idle = [await trio.open_unix_socket(path) for _ in range(3)]
        gigabyte = await trio.open_unix_socket(path)
        with pytest.raises(trio.BrokenResourceError):
            await gigabyte.send_all(bytes(1 << 30))
        async with attached(session) as client:
            await client.silence()
        for stream in (*idle, gigabyte):
            await stream.aclose()


async def test_hello_of_another_session_is_told_why(tmp_path: Path) -> None:
    session = session_in(tmp_path)
    async with host_of(session):
        record = record_of(session)
        client = Client(await trio.open_unix_socket(record["socket"]))
        await client.send(**hello(record["token"], "session", "other"))
        assert "another session" in (await client.expect("refused"))["error"]
        await client.stream.aclose()
