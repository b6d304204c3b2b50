"""Whatever happens to a session, its runs come to what they would have come to undisturbed.

Each task is started at most once per attempt, each settlement is told once, nothing is left.
"""

import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Coroutine, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given, settings, strategies as st

from tests.support.bridges import Pi
from tests.support.live import agents_left
from tests.support.programs import wait_end
from tests.support.schedules import (
    Schedule,
    clock_environment,
    open_schedule,
    prepare,
    summary_of,
)

pytestmark = [pytest.mark.slow, pytest.mark.unmeasured]
_IS_SOAK = settings.get_current_profile_name() == "soak"
_LIMIT_S = 300

Act = Callable[[Schedule], Coroutine[Any, Any, None]]
ACTS: dict[str, Act] = {
    "kill the host": Schedule.kill_host,
    "kill the session": Schedule.kill_bridge,
    "reload": Schedule.reload,
    "steer": Schedule.steer,
    "cancel": Schedule.cancel,
    "repair": Schedule.repair,
    "resume": Schedule.resume,
    "twenty minutes ahead": lambda schedule: schedule.jump(20),
    "twenty minutes back": lambda schedule: schedule.jump(-20),
}
STEPS = st.lists(
    st.tuples(st.sampled_from(sorted(ACTS)), st.integers(min_value=0, max_value=6)),
    min_size=2,
    max_size=7,
)


@cache
def undisturbed() -> Any:
    """Return what both runs come to when nothing happens to them."""
    return play(())


def play(steps: Sequence[tuple[str, int]]) -> list[Any]:
    """Let things happen to a session and return what its runs came to.

    Args:
        steps: each with the tenths of a second that pass before it.
    """
    folder = Path(tempfile.mkdtemp(prefix="schedule-"))
    try:
        return trio.run(_play, folder, steps)
    finally:
        shutil.rmtree(folder)


async def _play(folder: Path, steps: Sequence[tuple[str, int]]) -> list[Any]:
    project = prepare(folder)
    pi = Pi(project, f"schedule-{folder.name}", env=clock_environment(project))
    try:
        with trio.fail_after(_LIMIT_S):
            async with open_schedule(pi) as schedule:
                for name, tenths in steps:
                    await schedule.listen(tenths / 10)
                    await ACTS[name](schedule)
                answers = await schedule.finish()
                await schedule.hear_out()
                await schedule.bridge.leave("quit")
                _check(schedule)
            for host in pi.hosts:
                await wait_end(host)
        assert pi.hosts_alive() == []
        assert agents_left(project) == []
        return [summary_of(answer) for answer in answers.values()]
    finally:
        for pid in pi.hosts_alive():
            os.kill(pid, signal.SIGKILL)


def _check(schedule: Schedule) -> None:
    assert schedule.settlements() == set(schedule.told)
    assert schedule.twice == []
    for run in schedule.runs:
        started = schedule.started(run)
        assert sorted(started) == sorted(set(started))


@settings(max_examples=200 if _IS_SOAK else 4)
@given(steps=STEPS)
def test_whatever_happens_runs_come_to_what_they_would_have_come_to(
    steps: list[tuple[str, int]],
) -> None:
    expected, other = undisturbed()
    steady, cancelled = play(steps)
    assert steady == expected
    assert cancelled == other or cancelled["status"] == "cancelled"
