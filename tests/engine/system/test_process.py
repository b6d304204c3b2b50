import errno
import os
import resource
import signal
import stat
import tracemalloc
from pathlib import Path

import pytest

from engine.core.errors import ExternalError
from engine.system import process
from engine.system.identity import ProcessIdentity, identify
from engine.system.launch import LaunchError
from engine.system.output import ToFiles, ToMemory
from engine.system.process import ProcessExit, ProcessSpec, run
from tests.support.programs import (
    ENV,
    is_running,
    python,
    shell,
    spec,
)


async def test_exit_code_and_both_outputs_come_back() -> None:
    ended = await run(spec(shell("echo out; echo err >&2; exit 3")))
    assert ended == ProcessExit(
        code=3,
        signal=None,
        stdout=b"out\n",
        stderr=b"err\n",
        overflowed=False,
        pipes_held=False,
        duration_ms=ended.duration_ms,
    )


async def test_a_signal_is_not_an_exit_code() -> None:
    ended = await run(spec(shell("kill -SEGV $$")))
    assert (ended.code, ended.signal) == (None, signal.SIGSEGV)


async def test_arguments_arrive_as_they_stand(tmp_path: Path) -> None:
    odd = ("a b", "'q' \"d\"", "$HOME", "new\nline", "*", "`id`", "", "--", "\udcff")
    ended = await run(spec(python("import sys; print(ascii(sys.argv[1:]), end='')", *odd)))
    assert ended.stdout.decode() == ascii(list(odd))


async def test_the_environment_is_the_given_one_and_nothing_else() -> None:
    given = {"A": "1", "PATH": ENV["PATH"]}
    ended = await run(ProcessSpec(("env",), Path("/"), given))
    assert set(ended.stdout.decode().split()) == {f"{name}={given[name]}" for name in given}


async def test_a_mark_reaches_the_program_beside_a_name_for_the_call() -> None:
    first = await run(spec(("env",), mark="token/fix@1"))
    second = await run(spec(("env",), mark="token/fix@1"))
    assert b"PINATA_MARK=token/fix@1\n" in first.stdout
    calls = {line for line in (first.stdout + second.stdout).split() if b"PINATA_CALL" in line}
    assert len(calls) == 2


async def test_the_program_runs_where_it_was_told_to(tmp_path: Path) -> None:
    assert (await run(spec(("test", "-e", tmp_path.name), cwd=tmp_path.parent))).code == 0


async def test_without_stdin_a_reader_finds_the_end_at_once() -> None:
    assert (await run(spec(("cat",)))).stdout == b""


async def test_more_stdin_than_a_pipe_holds_meets_more_output_than_a_pipe_holds() -> None:
    data = os.urandom(1 << 20)
    ended = await run(spec(("cat",), stdin=data))
    assert ended.stdout == data


async def test_a_program_that_stops_reading_its_stdin_is_no_error() -> None:
    ended = await run(spec(shell("exec 0<&-; echo done"), stdin=b"x" * (1 << 20)))
    assert (ended.code, ended.stdout) == (0, b"done\n")


async def test_a_program_inherits_no_descriptor_but_its_three_streams(tmp_path: Path) -> None:
    with (tmp_path / "open").open("wb") as file:
        os.dup2(file.fileno(), file.fileno() + 100, inheritable=True)
        ended = await run(spec(python("import os; print(len(os.listdir('/proc/self/fd')))")))
        os.close(file.fileno() + 100)
    assert ended.stdout == b"4\n"  # the fourth is the listing itself


async def test_a_program_leads_a_session_of_its_own() -> None:
    code = "import os; print(os.getpid() == os.getpgid(0) == os.getsid(0))"
    assert (await run(spec(python(code)))).stdout == b"True\n"


def test_a_program_starts_with_no_signal_blocked_and_with_pipes_that_break() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1})
    try:
        child = process._popen(spec(("grep", "^Sig", "/proc/self/status")), ENV)
        blocked_here = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    said = dict(line.split(b":\t") for line in child.communicate()[0].splitlines())
    assert int(said[b"SigBlk"], 16) == 0
    assert not int(said[b"SigIgn"], 16) & 1 << (signal.SIGPIPE - 1)
    assert {signal.SIGTERM, signal.SIGUSR1} <= blocked_here


async def test_who_asks_learns_which_process_was_started() -> None:
    seen: list[ProcessIdentity | None] = []

    def started(identity: ProcessIdentity) -> None:
        seen.extend((identity, identify(identity.pid)))

    ended = await run(spec(shell("echo $$")), started=started)
    assert seen[0] == seen[1] is not None
    assert seen[0] is not None
    assert int(ended.stdout) == seen[0].pid


async def test_a_listener_that_fails_does_not_leave_the_program_running() -> None:
    pids: list[int] = []

    def started(identity: ProcessIdentity) -> None:
        pids.append(identity.pid)
        raise LookupError

    with pytest.raises(LookupError):
        await run(spec(("sleep", "60")), started=started)
    assert not is_running(pids[0])


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        pytest.param(("no-such-program",), "no such file or directory", id="missing"),
        pytest.param(("/usr",), "permission denied", id="folder"),
        pytest.param(("./plain",), "permission denied", id="not executable"),
        pytest.param(("./strange",), "exec format error", id="no program at all"),
        pytest.param(("sh\0",), "embedded null byte", id="NUL in the name"),
        pytest.param(("sh", "a\0b"), "embedded null byte", id="NUL in an argument"),
        pytest.param(("sh", "x" * 200_000), "argument list too long", id="argument too long"),
    ],
)
async def test_what_cannot_be_started_is_named_with_the_reason(
    argv: tuple[str, ...], reason: str, tmp_path: Path
) -> None:
    (tmp_path / "plain").touch()
    (tmp_path / "strange").write_bytes(b"\x7fstrange")
    (tmp_path / "strange").chmod(0o700)
    logs = ToFiles(tmp_path / "out", tmp_path / "err", 100)
    with pytest.raises(LaunchError) as caught:
        await run(spec(argv, cwd=tmp_path, output=logs))
    assert str(caught.value) == f"cannot start {argv[0]!r}: {reason}"
    assert not logs.stdout.exists()
    assert not logs.stderr.exists()


async def test_a_missing_working_directory_is_named(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    with pytest.raises(LaunchError, match=f"'true': its working directory {gone}: no such file"):
        await run(spec(("true",), cwd=gone))


async def test_an_impossible_variable_name_is_a_failed_launch() -> None:
    with pytest.raises(LaunchError, match="illegal environment variable name"):
        await run(ProcessSpec(("true",), Path("/"), {"A=B": "1"}))


async def test_captured_output_keeps_its_start_and_lets_the_program_finish() -> None:
    ended = await run(spec(shell("yes | head -c 1000000; exit 5"), output=ToMemory(100)))
    assert (ended.stdout, ended.overflowed, ended.code) == (b"y\n" * 50, True, 5)


async def test_captured_output_can_keep_its_end_instead() -> None:
    end = ToMemory(4, keeps_end=True)
    ended = await run(spec(shell("yes | head -c 1000000; printf 12345"), output=end))
    assert (ended.stdout, ended.stderr, ended.overflowed) == (b"2345", b"", True)


@pytest.mark.parametrize("keeps_end", [False, True])
async def test_what_is_kept_in_memory_can_be_heard_as_it_comes(*, keeps_end: bool) -> None:
    heard = bytearray()
    output = ToMemory(3, keeps_end=keeps_end, heard=heard.extend)
    ended = await run(spec(shell("printf 12345"), output=output))
    assert heard == b"12345"
    assert ended.stdout == (b"345" if keeps_end else b"123")


async def test_output_of_exactly_the_limit_is_not_too_long() -> None:
    ended = await run(spec(shell("printf 12345"), output=ToMemory(5)))
    assert (ended.stdout, ended.overflowed) == (b"12345", False)


async def test_output_to_files_is_whole_and_private(tmp_path: Path) -> None:
    logs = ToFiles(tmp_path / "out", tmp_path / "err", 1 << 20)
    ended = await run(spec(shell("yes | head -c 500000; echo oops >&2"), output=logs))
    assert (ended.stdout, ended.stderr, ended.overflowed) == (b"", b"", False)
    assert logs.stdout.read_bytes() == b"y\n" * 250_000
    assert logs.stderr.read_bytes() == b"oops\n"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (logs.stdout, logs.stderr)] == [0o600] * 2


async def test_endless_output_is_stopped_at_what_both_files_may_hold(tmp_path: Path) -> None:
    logs = ToFiles(tmp_path / "out", tmp_path / "err", 300_000)
    ended = await run(spec(shell("yes >&2 & yes"), output=logs))
    assert ended.overflowed
    assert logs.stdout.stat().st_size + logs.stderr.stat().st_size == 300_000
    assert ended.signal == signal.SIGTERM


async def test_a_log_that_exists_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"older")
    with pytest.raises(ExternalError, match=f"cannot save output: .*{tmp_path / 'out'}"):
        await run(spec(("true",), output=ToFiles(tmp_path / "out", tmp_path / "err", 9)))
    assert (tmp_path / "out").read_bytes() == b"older"


async def test_a_log_that_cannot_be_written_stops_the_program(tmp_path: Path) -> None:
    logs = ToFiles(tmp_path / "out", tmp_path / "err", 1 << 30)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(ExternalError, match=r"cannot save output: .*File too large.*out"):
            await run(spec(("yes",), output=logs))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def test_much_output_does_not_grow_memory(tmp_path: Path) -> None:
    tracemalloc.start()
    try:
        ended = await run(spec(shell("yes | head -c 20000000"), output=ToMemory(1 << 10)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert ended.overflowed
    assert peak < 4 << 20


async def test_a_program_that_we_cannot_take_hold_of_does_not_run_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pids: list[int] = []

    def refuse(pid: int) -> None:
        pids.append(pid)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(process, "identify", refuse)
    with pytest.raises(LaunchError, match="cannot start 'sleep': too many open files"):
        await run(spec(("sleep", "60")))
    assert not is_running(pids[0])
