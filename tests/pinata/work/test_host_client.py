"""What a client says when there is no host, or none that it should trust."""

import os
import sys
from pathlib import Path

import pytest
import trio

from engine.core.errors import ConflictError, CorruptionError, ExternalError, PinataError
from engine.records.host import HostRecordV1, encode_host
from engine.system import locks
from engine.system.holder import read_live_holder
from engine.system.log_file import LOG_LIMIT_BYTES
from pinata.work import host_client
from pinata.work.host_client import attach
from pinata.work.host_record import find_host
from pinata.work.session import Session, prepare_session

HELLO = {"type": "hello", "v": 1, "role": "session", "session": "s1", "cwd": "/"}


@pytest.fixture
async def session(tmp_path: Path) -> Session:
    found = Session.of("s1", {"XDG_STATE_HOME": str(tmp_path)})
    await prepare_session(found)
    return found


def record(socket: Path, session: str = "s1") -> bytes:
    return encode_host(HostRecordV1(session=session, socket=str(socket), token="t" * 43, pid=7))


async def refusal(session: Session) -> PinataError:
    with pytest.raises(PinataError) as caught:
        await attach(session, {}, HELLO)
    assert "\n" not in str(caught.value)
    return caught.value


async def test_no_record_is_no_host(session: Session) -> None:
    assert await find_host(session) is None


async def test_record_that_is_a_link_is_refused(session: Session, tmp_path: Path) -> None:
    aim = tmp_path / "aim"
    aim.write_bytes(record(tmp_path / "nowhere"))
    session.host_file.symlink_to(aim)
    error = await refusal(session)
    assert isinstance(error, CorruptionError)
    assert str(error) == f"{session.host_file} is not a regular file"


async def test_record_of_another_user_is_refused(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.host_file.write_bytes(record(Path("/nowhere")))
    monkeypatch.setattr("pinata.work.host_record.os.geteuid", lambda: os.getuid() + 1)
    with pytest.raises(ConflictError, match="belongs to another user; move it away and try again"):
        await find_host(session)


async def test_record_of_another_session_is_refused(session: Session) -> None:
    session.host_file.write_bytes(record(Path("/nowhere"), "other"))
    assert "is the record of another session's host; remove it" in str(await refusal(session))


@pytest.mark.parametrize("data", [b"", b"{}", b"x" * (1 << 17)], ids=["empty", "none", "long"])
async def test_damaged_record_is_refused(session: Session, data: bytes) -> None:
    session.host_file.write_bytes(data)
    assert isinstance(await refusal(session), CorruptionError)


async def test_record_that_cannot_be_read_says_so(session: Session, tmp_path: Path) -> None:
    session.host_file.symlink_to(session.host_file)
    with pytest.raises((CorruptionError, ExternalError)):
        await find_host(session)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_client, "ATTACH_LIMIT_S", 0.1)
    monkeypatch.setattr(host_client, "START_LIMIT_S", 0.2)


@pytest.mark.usefixtures("impatient")
async def test_host_that_does_not_answer_is_named(session: Session, tmp_path: Path) -> None:
    with trio.socket.socket(trio.socket.AF_UNIX) as deaf:
        await deaf.bind(str(tmp_path / "sock"))
        deaf.listen()
        session.host_file.write_bytes(record(tmp_path / "sock"))
        error = await refusal(session)
    assert str(error).startswith("the host of this session, process 7, does not answer; see ")


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return a script that is started in place of a host."""
    path = tmp_path / "host"
    monkeypatch.setattr(sys, "executable", str(path))
    return path


def write(program: Path, script: str) -> None:
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o700)


async def test_host_that_cannot_start_says_why(session: Session, program: Path) -> None:
    write(program, """echo '{"error": "the disk is full"}'""")
    error = await refusal(session)
    assert str(error) == "the host of this session cannot start: the disk is full"


@pytest.mark.parametrize("says", ["welcome, user", "[]", '{"colour": "red"}'])
async def test_host_that_says_something_else_is_none(
    session: Session, program: Path, says: str
) -> None:
    write(program, f"echo '{says}'")
    assert str(await refusal(session)) == (
        f"the host of this session said what no host says; see {session.log_file}"
    )


async def test_host_that_ends_at_once_leads_to_its_log(session: Session, program: Path) -> None:
    session.log_file.write_bytes(b"x" * (LOG_LIMIT_BYTES + 1))
    write(program, 'echo "Traceback: $* ${PINATA_AGENT-none} $A" >&2; exit 1')
    with pytest.raises(ExternalError) as caught:
        await attach(session, {"PINATA_AGENT": "0", "A": "1"}, HELLO)
    assert str(caught.value) == f"the host of this session ended at once; see {session.log_file}"
    assert session.log_file.read_text() == "Traceback: -m pinata host --session=s1 none 1\n"
    assert session.log_file.with_name("host.log.1").stat().st_size > LOG_LIMIT_BYTES


async def test_host_that_is_being_started_has_more_time_than_one_that_serves(
    session: Session, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_client, "ATTACH_LIMIT_S", 0.2)
    write(program, """sleep 0.5; echo '{"error": "the disk is full"}'""")
    error = await refusal(session)
    assert str(error) == "the host of this session cannot start: the disk is full"


async def test_host_whose_starter_was_killed_is_waited_for(
    session: Session, program: Path, tmp_path: Path
) -> None:
    write(program, f"echo x >> {session.folder}/starts; exit 1")
    caught: list[PinataError] = []
    async with trio.open_nursery() as nursery:
        was_refused = trio.Event()

        async def refuse() -> None:
            caught.append(await refusal(session))
            was_refused.set()

        async with locks.claim(session.lock, what="it", holder="its host, process 7"):
            nursery.start_soon(refuse)
            turn = session.lock.with_name(f"{session.lock.stem}.start.lock")
            with trio.fail_after(30):
                while await trio.to_thread.run_sync(read_live_holder, turn) is None:
                    await trio.lowlevel.checkpoint()
            # It serves now, and lets nobody in.
            session.host_file.write_bytes(record(tmp_path / "nowhere", "other"))
            with trio.fail_after(30):
                await was_refused.wait()
    assert "is the record of another session's host" in str(caught[0])
    assert not (session.folder / "starts").exists()


@pytest.mark.usefixtures("impatient")
async def test_host_that_has_begun_and_never_serves_is_named(
    session: Session, program: Path
) -> None:
    async with locks.claim(session.lock, what="it", holder="its host, process 7"):
        assert str(await refusal(session)) == (
            "this session is held by its host, process 7, which cannot be reached; "
            f"see {session.log_file}, or end it"
        )


@pytest.mark.usefixtures("impatient")
async def test_host_that_is_slow_is_given_up_and_ended(session: Session, program: Path) -> None:
    write(program, "exec sleep 1000")
    assert str(await refusal(session)) == (
        f"the host of this session does not start; see {session.log_file}"
    )


async def test_those_who_start_a_host_do_so_in_turn(session: Session, program: Path) -> None:
    # Each believes that it serves, but nobody listens where its record says: all start one.
    write(program, f"""echo x >> {session.folder}/starts; echo '{{"error": "no"}}'""")
    errors = []

    async def start() -> None:
        errors.append(str(await refusal(session)))

    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(start)
    assert errors == ["the host of this session cannot start: no"] * 2


async def test_host_that_somebody_else_started_meanwhile_is_used(
    session: Session, program: Path
) -> None:
    session.host_file.write_bytes(record(Path("/nowhere")))
    await host_client._start(session, {}, None)
    assert not session.log_file.exists()


async def test_log_that_is_a_link_is_refused(session: Session, tmp_path: Path) -> None:
    session.log_file.symlink_to(tmp_path / "aim")
    assert str(await refusal(session)).startswith(f"{session.log_file} is no file of its own")
