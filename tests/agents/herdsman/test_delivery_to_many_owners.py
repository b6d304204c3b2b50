"""Many owners that control many agents in a process that dies anywhere: nothing is lost or doubled.

Real processes, each of which is killed at the crash point that it was told to die at.
"""

import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from agents.herdsman.runtime import REQUEST, RESULT
from tests.support.herd_storm import EVERY, control_text, journal_file, labels_of, owner_file
from tests.support.herd_talk import SessionLog

pytestmark = [pytest.mark.slow, pytest.mark.unmeasured]
_IS_SOAK = settings.get_current_profile_name() == "soak"
OWNERS, AGENTS, CONTROLS, LIVES = (20, 20, 100, 40) if _IS_SOAK else (3, 3, 6, 4)
_LIMIT_S = 3600 if _IS_SOAK else 120
KILLED = -9
# What crash points are called that are passed when an agent is born, and when it is done.
BIRTHS = ("played.custom.",)
ENDS = ("herd.result.", "herd.artifact.", "herd.reservation.", "herd.mailbox.")


def live(
    folder: Path,
    plan: str,
    sent: int = 0,
    sizes: tuple[int, int, int] = (OWNERS, AGENTS, CONTROLS),
) -> int:
    """Have a process go on with it; return how it ended."""
    folder.mkdir(exist_ok=True)
    module = "tests.support.herd_storm"
    said = subprocess.run(
        [sys.executable, "-m", module, str(folder), *map(str, sizes), plan, str(sent)],
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    assert said.returncode in (0, KILLED), said.stderr
    return said.returncode


def crash_points(folder: Path) -> list[str]:
    """Return the names of the crash points that one owner and one agent pass."""
    names = folder / "points"
    assert live(folder / "whole", f"record:{names}", sizes=(1, 1, EVERY)) == 0
    return sorted(set(names.read_text().split()))


def plans(points: list[str], chance: random.Random) -> Iterator[tuple[str, int]]:
    """Yield where the processes die, one after the other, and after how many controls.

    A quarter of them dies while agents are started, and another one while they end.
    """
    quarter = LIVES // 4
    late = [name for name in points if name.startswith(ENDS)]
    early = [name for name in points if name not in late]
    controls = [name for name in early if not name.startswith(BIRTHS)]
    for number in range(LIVES):
        is_between = quarter <= number < LIVES - quarter
        names = controls if is_between else early if number < quarter else late
        # So that all of them together do not do all of the work before the last one.
        most = OWNERS if is_between else OWNERS * AGENTS // quarter
        sent = chance.randint(1, OWNERS * CONTROLS // (LIVES - 2 * quarter)) if is_between else 0
        yield f"kill:{chance.choice(names)}:{chance.randint(1, most)}", sent


def journal(folder: Path, owner: int) -> dict[int, str]:
    """Return what became of each control, as far as its owner can tell."""
    found: dict[int, str] = {}
    for line in journal_file(folder, owner).read_text().splitlines():
        what, number, *_ = line.split()
        found[int(number)] = what
    return found


def read_texts(folder: Path) -> list[str]:
    """Return every request that any agent has read."""
    return [
        line["content"]
        for path in (folder / "sessions").rglob("*.jsonl")
        for line in SessionLog(path).lines()
        if line.get("customType") == REQUEST
    ]


def test_many_owners_lose_nothing_and_nothing_is_applied_twice(tmp_path: Path) -> None:
    folder = tmp_path / "storm"
    chance = random.Random(1)  # noqa: S311 - not for secrets
    ended = [live(folder, *plan) for plan in plans(crash_points(tmp_path), chance)]
    assert ended.count(KILLED) >= LIVES // 2
    assert live(folder, "") == 0

    for owner in range(OWNERS):
        entries = SessionLog(owner_file(folder, owner)).entries()
        told = [entry.details["agentLabel"] for entry in entries if entry.kind == RESULT]
        assert sorted(told) == sorted(labels_of(owner, AGENTS))
        references = [entry.details["resultIndex"] for entry in entries if entry.kind == RESULT]
        assert all(each >= 1 for each in references)
    assert not list((folder / "data/runtime/mailboxes-v4").glob("*/*"))

    read = Counter(
        found for text in read_texts(folder) for found in re.findall(r"<control \d+ \d+>", text)
    )
    assert set(read.values()) <= {1}
    for owner in range(OWNERS):
        fates = journal(folder, owner)
        assert sorted(fates) == list(range(CONTROLS))
        for number, fate in fates.items():
            # A steer waits in its agent's memory; whoever dies loses it.
            if fate == "sent" and number % EVERY == 0:
                assert read[control_text(owner, number)] == 1
