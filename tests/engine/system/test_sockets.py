import os
import socket
import stat
from pathlib import Path

import pytest
import trio
import trio.testing

from engine.core.errors import ConflictError, ExternalError
from engine.system.sockets import (
    PATH_LIMIT_BYTES,
    NobodyListensError,
    connect,
    discard_dead,
    open_listener,
    somebody_listens,
    temporary_folder,
)

NAME = "link.sock"


@pytest.fixture
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose path leaves room for a socket's name."""
    folder = tmp_path_factory.mktemp("s")
    assert len(os.fsencode(folder)) < PATH_LIMIT_BYTES - 20
    return folder


def too_deep(folder: Path) -> Path:
    return folder / ("d" * 60) / ("e" * 60)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def leave_dead_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
        dead.listen()


async def assert_talks(path: Path, listener: trio.SocketListener) -> None:
    async with await connect(path) as client, await listener.accept() as server:
        await client.send_all(b"hello")
        assert await server.receive_some() == b"hello"


async def test_a_listener_is_this_users_alone_and_leaves_nothing(short: Path) -> None:
    folder = short / "run"
    async with open_listener(folder, NAME, short) as listening:
        assert listening.path == folder / NAME
        assert mode(folder) == 0o700
        assert mode(listening.path) == 0o600
        await assert_talks(listening.path, listening.listener)
    assert names(folder) == []
    with pytest.raises(NobodyListensError, match="nobody listens at"):
        await connect(folder / NAME)


async def test_a_path_that_is_too_long_lies_in_a_private_folder_elsewhere(short: Path) -> None:
    deep = too_deep(short)
    async with open_listener(deep, NAME, short) as listening:
        private = listening.path.parent
        assert private.parent == short
        assert mode(private) == 0o700
        assert mode(listening.path) == 0o600
        assert names(deep) == []
        await assert_talks(listening.path, listening.listener)
    assert not private.exists()


async def test_a_dead_socket_is_replaced(short: Path) -> None:
    leave_dead_socket(short / NAME)
    with pytest.raises(NobodyListensError):
        await connect(short / NAME)
    async with open_listener(short, NAME, short) as listening:
        await assert_talks(listening.path, listening.listener)


async def test_a_file_that_is_no_socket_is_left_alone(short: Path) -> None:
    (short / NAME).write_text("mine")
    with pytest.raises(ConflictError, match="is not a socket; move it away"):
        async with open_listener(short, NAME, short):
            raise AssertionError
    assert (short / NAME).read_text() == "mine"
    with pytest.raises(NobodyListensError):
        await connect(short / NAME)


async def test_what_took_the_sockets_place_is_left_alone(short: Path) -> None:
    async with open_listener(short, NAME, short) as listening:
        listening.path.unlink()
        listening.path.write_text("mine")
    assert (short / NAME).read_text() == "mine"


async def test_a_folder_that_cannot_hold_a_socket_is_named(short: Path) -> None:
    with pytest.raises(ExternalError, match="cannot listen at"):
        async with open_listener(too_deep(short), NAME, short / "missing"):
            raise AssertionError


async def test_a_long_name_leaves_no_private_folder_behind(short: Path) -> None:
    with pytest.raises(ExternalError, match="cannot listen at"):
        async with open_listener(short, "n" * PATH_LIMIT_BYTES, short):
            raise AssertionError
    assert names(short) == []


async def test_a_path_that_leads_nowhere_cannot_be_connected_to(short: Path) -> None:
    (short / "loop").symlink_to("loop")
    with pytest.raises(ExternalError, match="cannot connect to"):
        await connect(short / "loop")
    with pytest.raises(NobodyListensError):
        await connect(short / "missing" / NAME)


async def test_a_full_queue_is_waited_for_and_can_be_given_up(short: Path) -> None:
    with socket.socket(socket.AF_UNIX) as full:
        full.bind(str(short / NAME))
        full.listen(0)
        async with await connect(short / NAME):
            with trio.move_on_after(0.1) as scope:
                await connect(short / NAME)
            assert scope.cancelled_caught

            async def make_room() -> None:
                await trio.testing.wait_all_tasks_blocked(0.01)
                accepted, _ = await trio.to_thread.run_sync(full.accept)
                accepted.close()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(make_room)
                await (await connect(short / NAME)).aclose()


async def test_cancelled_while_it_listens_it_leaves_nothing(short: Path) -> None:
    with trio.CancelScope() as scope:
        async with open_listener(short, NAME, short):
            scope.cancel()
            await trio.sleep_forever()
    assert names(short) == []


def test_the_temporary_folder_is_the_users_own_where_there_is_one(short: Path) -> None:
    runtime, other = short / "runtime", short / "other"
    other.mkdir()
    environment = {"XDG_RUNTIME_DIR": str(runtime), "TMPDIR": str(other)}
    assert temporary_folder(environment) == other
    runtime.mkdir()
    assert temporary_folder(environment) == runtime
    assert temporary_folder({"XDG_RUNTIME_DIR": "relative"}).is_dir()


def test_what_a_dead_process_left_in_a_private_folder_goes(short: Path) -> None:
    private = short / "pinata-abc"
    private.mkdir()
    leave_dead_socket(private / NAME)
    discard_dead(private / NAME, NAME, short)
    assert not private.exists()
    private.mkdir()
    discard_dead(private / NAME, NAME, short)
    assert not private.exists()
    discard_dead(private / NAME, NAME, short)


def test_nothing_goes_that_no_listener_can_have_made(short: Path) -> None:
    for folder in (short / "other", short / "pinata-abc" / "inner", short / "pinata-full"):
        folder.mkdir(parents=True)
        leave_dead_socket(folder / NAME)
    (short / "pinata-full" / "note").touch()
    (short / "pinata-file").mkdir()
    (short / "pinata-file" / NAME).touch()
    for name in ("other", "pinata-abc/inner", "pinata-file"):
        discard_dead(short / name / NAME, NAME, short)
        assert (short / name / NAME).exists()
    discard_dead(short / "pinata-full" / "note", NAME, short)
    discard_dead(short / "pinata-full" / NAME, "host.sock", short)
    assert (short / "pinata-full" / NAME).exists()
    assert (short / "pinata-full" / "note").exists()


def test_what_a_living_process_listens_at_stays_whoever_asks(short: Path) -> None:
    private = short / "pinata-abc"
    private.mkdir()
    with socket.socket(socket.AF_UNIX) as living:
        living.bind(str(private / NAME))
        living.listen()
        discard_dead(private / NAME, NAME, short)
        assert somebody_listens(private / NAME)


def test_only_a_living_process_listens(short: Path) -> None:
    path = short / NAME
    assert not somebody_listens(path)
    path.write_text("no socket")
    assert not somebody_listens(path)
    path.unlink()
    with socket.socket(socket.AF_UNIX) as living:
        living.bind(str(path))
        living.listen()
        assert somebody_listens(path)
    assert not somebody_listens(path)
