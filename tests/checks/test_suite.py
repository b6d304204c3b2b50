import hashlib
import os
import signal
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

import pydantic
import pytest
import trio

from checks import suite
from checks.proof import CheckProof, ListName, SavedLog
from checks.suite import SuiteResult, SuiteSpec, run_suite
from engine.core.environment import child_environment
from engine.core.errors import ExternalError
from engine.core.ids import CheckId
from engine.core.spec import CheckSpec
from tests.support.programs import ENV, Beacon, is_running, python, shell

Planned = Sequence[tuple[ListName, CheckSpec]]


class Heard:
    """Notes what a suite tells about its progress."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    async def check_started(self, spec: CheckSpec) -> None:
        await trio.lowlevel.checkpoint()
        self.lines.append(f"{spec.id} started")

    async def check_ended(self, proof: CheckProof) -> None:
        await trio.lowlevel.checkpoint()
        self.lines.append(f"{proof.id} {'passed' if proof.passed else 'failed'}")


class Bench:
    """Runs suites in one folder."""

    def __init__(self, folder: Path) -> None:
        self.cwd = folder / "cwd"
        self.logs = folder / "logs"
        self.cwd.mkdir()
        self.heard = Heard()
        self.collected: list[CheckProof] = []

    async def run(self, planned: Planned, env: Mapping[str, str] = ENV) -> SuiteResult:
        return await run_suite(
            SuiteSpec(planned, self.cwd, env, self.logs, "token/fix@1"),
            progress=self.heard,
            collected=self.collected,
        )

    async def prove(self, argv: tuple[str, ...], timeout_ms: int = 60_000) -> CheckProof:
        result = await self.run([("checks", CheckSpec(CheckId("only"), argv, timeout_ms))])
        assert result.passed == result.proofs[0].passed
        assert result.not_run == ()
        return result.proofs[0]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def check(name: str, script: str) -> CheckSpec:
    return CheckSpec(CheckId(name), shell(script))


async def test_the_first_failure_leaves_the_rest_not_run(bench: Bench) -> None:
    last: tuple[ListName, CheckSpec] = ("evidenceChecks", check("third", "touch third"))
    result = await bench.run(
        [("checks", check("first", "true")), ("checks", check("second", "exit 3")), last]
    )
    assert [(proof.id, proof.passed, proof.code) for proof in result.proofs] == [
        ("first", True, 0),
        ("second", False, 3),
    ]
    assert result.not_run == (last,)
    assert not result.passed
    assert not (bench.cwd / "third").exists()
    assert bench.collected == list(result.proofs)
    assert bench.heard.lines == [
        "first started",
        "first passed",
        "second started",
        "second failed",
    ]


async def test_a_suite_of_nothing_passes(bench: Bench) -> None:
    assert (await bench.run([])) == SuiteResult((), ())
    assert SuiteResult((), ()).passed


async def test_a_proof_says_what_was_run_and_what_it_printed(bench: Bench) -> None:
    argv = shell("pwd -P; echo oops >&2; exit 7")
    proof = await bench.prove(argv)
    logs = {"only.out": f"{bench.cwd.resolve()}\n".encode(), "only.err": b"oops\n"}
    stdout, stderr = (
        SavedLog(str(bench.logs / name), len(text), hashlib.sha256(text).hexdigest())
        for name, text in logs.items()
    )
    assert {path.name: path.read_bytes() for path in bench.logs.iterdir()} == logs
    assert {stat.S_IMODE(path.stat().st_mode) for path in bench.logs.iterdir()} == {0o600}
    assert stat.S_IMODE(bench.logs.stat().st_mode) == 0o700
    assert proof == CheckProof(
        id="only",
        list="checks",
        argv=argv,
        cwd=str(bench.cwd),
        code=7,
        signal=None,
        reason=None,
        passed=False,
        duration_ms=proof.duration_ms,
        stdout=stdout,
        stderr=stderr,
    )


async def test_a_proof_survives_being_stored(bench: Bench) -> None:
    proof = await bench.prove(("true",))
    stored = pydantic.TypeAdapter(CheckProof)
    assert stored.validate_json(stored.dump_json(proof)) == proof


async def test_arguments_reach_a_check_as_they_stand(bench: Bench) -> None:
    odd = ("a b", "'q' \"d\"", "$HOME", "new\nline")
    proof = await bench.prove(python("import sys; print(ascii(sys.argv[1:]))", *odd))
    assert (bench.logs / "only.out").read_text() == f"{list(odd)!a}\n"
    assert proof.argv[-4:] == odd


async def test_a_check_sees_what_was_passed_on_and_no_secret(bench: Bench) -> None:
    host = {"PATH": ENV["PATH"], "SECRET": "x", "OK": "y"}
    planned: Planned = [("checks", CheckSpec(CheckId("env"), ("env",)))]
    await bench.run(planned, child_environment(host, ["OK"]))
    seen = dict(line.split("=", 1) for line in (bench.logs / "env.out").read_text().splitlines())
    assert (seen["OK"], seen["PINATA_AGENT"]) == ("y", "1")
    assert "SECRET" not in seen


async def test_an_unknown_command_is_a_failed_check(bench: Bench) -> None:
    proof = await bench.prove(("no-such-program",))
    assert proof.reason == "cannot start 'no-such-program': no such file or directory"
    assert (proof.passed, proof.code, proof.stdout, proof.stderr) == (False, None, None, None)
    assert bench.heard.lines == ["only started", "only failed"]


@pytest.mark.slow
async def test_a_check_that_hangs_times_out_and_its_child_is_gone(
    bench: Bench, beacon: Beacon
) -> None:
    script = "sleep 60 & echo $! > $1; echo printed; wait"
    proof = await bench.prove(shell(script, str(beacon.path)), timeout_ms=1500)
    assert (proof.reason, proof.passed) == ("timed out", False)
    assert not is_running(await beacon.pid())
    assert (bench.logs / "only.out").read_bytes() == b"printed\n"
    assert proof.stdout is not None
    assert proof.stdout.bytes == 8


@pytest.mark.slow
async def test_a_check_that_prints_without_end_is_stopped_at_the_limit(bench: Bench) -> None:
    proof = await bench.prove(("yes",))
    log = (bench.logs / "only.out").read_bytes()
    assert (proof.reason, proof.passed) == ("output limit", False)
    assert proof.stdout == SavedLog(
        str(bench.logs / "only.out"), 16 << 20, hashlib.sha256(log).hexdigest()
    )
    assert len(log) == 16 << 20


async def test_a_check_that_passes_leaves_no_background_child(bench: Bench, beacon: Beacon) -> None:
    proof = await bench.prove(shell("sleep 60 & echo $! > $1", str(beacon.path)))
    assert proof.passed
    assert not is_running(await beacon.pid())


async def test_a_check_that_crashes_names_the_signal(bench: Bench) -> None:
    proof = await bench.prove(shell("kill -SEGV $$"))
    assert (proof.code, proof.signal, proof.reason) == (None, "SIGSEGV", None)
    assert suite._signal_name(int(signal.SIGRTMIN) + 1) == f"SIG{int(signal.SIGRTMIN) + 1}"


@pytest.mark.slow
async def test_output_held_by_an_outsider_is_noted_and_not_waited_for(
    bench: Bench, beacon: Beacon
) -> None:
    go = beacon.path.with_name("go")
    os.mkfifo(go)
    script = 'setsid sh -c "echo \\$\\$ > $1; exec sleep 60" & read line < $2; echo done'
    outsiders: list[int] = []

    async def release() -> None:
        outsiders.append(await beacon.pid())
        await trio.to_thread.run_sync(go.write_bytes, b"go\n")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(release)
        proof = await bench.prove(shell(script, str(beacon.path), str(go)))
    os.kill(outsiders[0], signal.SIGKILL)
    assert proof.passed
    assert [note.split(" kept ")[0] for note in proof.notes] == [
        "a process that left the check's group"
    ]
    assert (bench.logs / "only.out").read_bytes() == b"done\n"


async def test_a_cancelled_suite_leaves_the_proof_of_what_was_running(
    bench: Bench, beacon: Beacon
) -> None:
    running = CheckSpec(
        CheckId("second"), shell("echo so far; echo $$ > $1; exec sleep 60", str(beacon.path))
    )
    planned: Planned = [
        ("checks", check("first", "true")),
        ("checks", running),
        ("checks", check("third", "true")),
    ]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.run, planned)
        pid = await beacon.pid()
        nursery.cancel_scope.cancel()
    assert not is_running(pid)
    assert [(proof.id, proof.passed, proof.reason) for proof in bench.collected] == [
        ("first", True, None),
        ("second", False, "stopped"),
    ]
    assert bench.collected[1].stdout is not None
    assert bench.collected[1].stdout.bytes == len("so far\n")
    assert bench.heard.lines == ["first started", "first passed", "second started"]


async def test_logs_that_cannot_be_written_prove_nothing(bench: Bench) -> None:
    bench.logs.mkdir()
    (bench.logs / "only.out").write_bytes(b"of an earlier attempt")
    with pytest.raises(ExternalError, match="cannot save output"):
        await bench.prove(("true",))
    assert bench.collected == []
    assert (bench.logs / "only.out").read_bytes() == b"of an earlier attempt"
