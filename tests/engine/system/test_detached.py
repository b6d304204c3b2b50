import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from engine.system.detached import start_detached
from engine.system.identity import read_stat
from engine.system.launch import LaunchError
from tests.support.programs import ENV, Beacon, is_running, python, shell, wait_end


@pytest.fixture
def log(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    yield fd
    os.close(fd)


async def end(pid: int) -> None:
    """End a detached program, which nobody here can collect."""
    os.kill(pid, signal.SIGKILL)
    await wait_end(pid)


async def test_program_goes_on_after_its_first_line_in_a_session_of_its_own(
    tmp_path: Path, log: int
) -> None:
    code = (
        "import os, sys; print(os.getpid(), repr(sys.stdin.read()), os.getcwd(),"
        " sorted(os.listdir('/proc/self/fd')), flush=True);"
        "os.dup2(2, 1); print('later', flush=True); import signal; signal.pause()"
    )
    spare = os.open("/", os.O_RDONLY)
    os.set_inheritable(spare, True)  # noqa: FBT003 - positional in the library
    said = await start_detached(python(code), cwd=tmp_path, env=ENV, log=log)
    os.close(spare)
    assert said is not None
    pid, rest = said.decode().split(" ", 1)
    # The last one is the listing's own.
    assert rest == f"'' {tmp_path} ['0', '1', '2', '3']"
    stat = read_stat(int(pid))
    assert stat is not None
    assert stat.parent != os.getpid()
    assert stat.session == stat.group != os.getsid(0)
    assert is_running(int(pid))
    await end(int(pid))


async def test_program_carries_no_mark_of_whoever_starts_it(log: int) -> None:
    env = {**ENV, "A": "1", "PINATA_MARK": "token/x", "PINATA_CALL": "1.1"}
    said = await start_detached(
        shell("echo $$ ${A-none} ${PINATA_MARK-none} ${PINATA_CALL-none}; exec sleep 1000"),
        cwd=Path("/"),
        env=env,
        log=log,
    )
    assert said is not None
    pid, *rest = said.decode().split()
    assert rest == ["1", "none", "none"]
    await end(int(pid))


async def test_program_that_ends_without_a_line_is_collected_and_its_words_are_in_the_log(
    tmp_path: Path, log: int
) -> None:
    said = await start_detached(
        shell("printf half; echo no >&2; exit 3"), cwd=Path("/"), env=ENV, log=log
    )
    assert said is None
    assert (tmp_path / "log").read_text() == "no\n"


@pytest.mark.parametrize(
    "script", ["exec >&-; sleep 1000", "head -c 200000 /dev/zero; sleep 1000"], ids=["shut", "long"]
)
async def test_program_that_will_say_no_line_is_ended(
    beacon: Beacon, log: int, script: str
) -> None:
    said = await start_detached(
        shell(f"echo $$ > $1; {script}", str(beacon.path)), cwd=Path("/"), env=ENV, log=log
    )
    assert said is None
    await wait_end(await beacon.pid())


async def test_whoever_stops_waiting_for_the_line_ends_the_program(
    beacon: Beacon, log: int
) -> None:
    argv = shell("sleep 1000 & echo $! > $1; wait", str(beacon.path))
    async with trio.open_nursery() as nursery:

        async def start() -> None:
            await start_detached(argv, cwd=Path("/"), env=ENV, log=log)

        nursery.start_soon(start)
        grandchild = await beacon.pid()
        nursery.cancel_scope.cancel()
    await wait_end(grandchild)


async def test_program_that_is_not_there_is_told_in_the_log(tmp_path: Path, log: int) -> None:
    assert await start_detached(("nosuch",), cwd=Path("/"), env=ENV, log=log) is None
    assert "nosuch: not found" in (tmp_path / "log").read_text()


async def test_folder_that_is_not_there_is_an_error(tmp_path: Path, log: int) -> None:
    with pytest.raises(LaunchError, match="its working directory"):
        await start_detached(("true",), cwd=tmp_path / "gone", env=ENV, log=log)
