import os
import subprocess

import pytest

from engine.system.groups import end_group, signal_group
from engine.system.identity import read_stat
from tests.support.guard import blocking_allowed
from tests.support.programs import ENV, Beacon, group_members, is_running, python, shell

# The leader's child leaves the group and never collects its own child, which stays in the group.
NEGLECTFUL = """
import os, sys, time
if os.fork() == 0:
    child = os.fork()
    if child == 0:
        time.sleep(60)
    os.setsid()
    with open(sys.argv[1], "w") as beacon:
        beacon.write(f"{os.getpid()}\\n{child}\\n")
    time.sleep(60)
os._exit(0)
"""


def start(argv: tuple[str, ...]) -> "subprocess.Popen[bytes]":
    with blocking_allowed():
        return subprocess.Popen(argv, env=ENV, start_new_session=True)


def test_an_empty_group_takes_no_signal() -> None:
    child = start(("true",))
    child.wait()
    assert not signal_group(child.pid, 0)


def test_a_group_that_we_may_not_signal_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(group: int, number: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "killpg", refuse)
    assert signal_group(os.getpgrp(), 0)


async def test_every_member_is_dead_when_it_returns(beacon: Beacon) -> None:
    script = 'for i in 1 2 3 4 5 6 7 8; do sleep 60 & done; echo $! > "$1"; exec sleep 60'
    child = start(shell(script, str(beacon.path)))
    await beacon.line()
    assert len(group_members(child.pid)) == 9
    signal_group(child.pid, 9)
    child.wait()
    await end_group(child.pid)
    assert group_members(child.pid) == []


async def test_a_dead_member_that_nobody_collects_is_not_waited_for(beacon: Beacon) -> None:
    child = start(python(NEGLECTFUL, str(beacon.path)))
    parent = await beacon.pid()
    member = await beacon.pid()
    child.wait()
    await end_group(child.pid)
    stat = read_stat(member)
    assert stat is not None
    assert stat.is_dead
    assert is_running(parent)
    os.kill(parent, 9)
