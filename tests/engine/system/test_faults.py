import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.system import faults
from tests.support.programs import python

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    faults.install("")


def test_an_unarmed_point_does_nothing() -> None:
    faults.point("some.step")


def test_a_recording_lists_every_pass_in_order(tmp_path: Path) -> None:
    file = tmp_path / "with:colon"
    faults.install(f"record:{file}")
    for name in ("one.a", "two.b", "one.a"):
        faults.point(name)
    assert file.read_text().splitlines() == ["one.a", "two.b", "one.a"]


def test_an_error_happens_at_the_given_pass_only() -> None:
    faults.install("error:one.a:2:EIO")
    faults.point("one.a")
    faults.point("other")
    with pytest.raises(OSError, match="Input/output error"):
        faults.point("one.a")
    faults.point("one.a")


def test_a_kill_is_for_this_process_and_cannot_be_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda *arguments: killed.append(arguments))
    faults.install("kill:one.a:1")
    faults.point("other")
    faults.point("one.a")
    assert killed == [(os.getpid(), signal.SIGKILL)]


def test_a_kill_happens_at_the_given_pass() -> None:
    code = """
from engine.system import faults
faults.install("kill:one.a:2")
faults.point("one.a")
faults.point("other")
print("first", flush=True)
faults.point("one.a")
print("second", flush=True)
"""
    ended = subprocess.run(python(code), cwd=ROOT, capture_output=True, check=False)
    assert (ended.returncode, ended.stdout) == (-signal.SIGKILL, b"first\n")
