"""Which programs of an agent its owner is told of."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from engine.core.errors import ExternalError
from engine.system import strays
from engine.system.strays import MARK_VARIABLE
from pinata.work.herd_processes import find_foreground


@contextmanager
def carrying(mark: str, name: str = "sleep") -> Iterator[int]:
    """Have a program inside the block that carries a mark and does nothing."""
    argv, env = [name, "60"], {**os.environ, MARK_VARIABLE: mark}
    with subprocess.Popen(argv, executable="/bin/sleep", env=env) as child:
        yield child.pid
        child.kill()


def test_programs_of_that_agent_alone_are_told() -> None:
    mark = "5c9f0d3e"
    with ExitStack() as stack:
        pids = [stack.enter_context(carrying(f"{mark}/agent")) for _ in range(3)]
        stack.enter_context(carrying("5c9f0d3f/agent"))
        found = find_foreground(f"{mark}/")
    assert {each.pid for each in found} == set(pids)


def test_command_that_is_no_text_is_told_as_far_as_it_is_one() -> None:
    with carrying("5c9f0d40/agent", "x" * 5_000 + "\udcff"):
        (shown,) = find_foreground("5c9f0d40/")
    assert shown.command == "x" * 5_000 + " 60"
    assert shown.name == "sleep"


def test_program_that_has_ended_meanwhile_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with carrying("5c9f0d41/agent"):
        gone = strays.find_marked("5c9f0d41/")
    monkeypatch.setattr(strays, "find_marked", lambda _: gone)
    assert find_foreground("5c9f0d41/") == []


def test_system_that_does_not_tell_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(strays, "find_marked", refuse)
    with pytest.raises(ExternalError, match=r"cannot look at processes: .*denied"):
        find_foreground("5c9f0d42/")
