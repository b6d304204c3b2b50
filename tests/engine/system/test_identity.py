import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from engine.system.identity import all_pids, identify, is_alive, read_stat


def test_this_process_is_alive_and_is_itself() -> None:
    me = identify(os.getpid())
    assert me is not None
    assert is_alive(me)
    assert identify(os.getpid()) == me
    assert os.getpid() in all_pids()


def test_another_start_or_another_boot_is_another_process() -> None:
    me = identify(os.getpid())
    assert me is not None
    assert not is_alive(replace(me, start_ticks=me.start_ticks + 1))
    assert not is_alive(replace(me, boot_id="an earlier boot"))


def test_a_process_that_only_waits_to_be_collected_is_dead() -> None:
    child = subprocess.Popen(["true"])
    identity = identify(child.pid)
    assert identity is not None
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not is_alive(identity)
    assert read_stat(child.pid) is not None
    child.wait()
    assert identify(child.pid) is None
    assert not is_alive(identity)


def test_a_program_may_be_called_anything(tmp_path: Path) -> None:
    odd = tmp_path / "a) Z 1 (\n"
    odd.symlink_to(sys.executable)
    child = subprocess.Popen([odd, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
    stat = read_stat(child.pid)
    child.communicate(b"\n")
    assert stat is not None
    assert (stat.parent, stat.group, stat.session) == (os.getpid(), child.pid, child.pid)
    assert not stat.is_dead
