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
# What crash points are called that are passed when an agent is done.
ENDS = ("herd.result.", "herd.artifact.", "herd.reservation.", "herd.mailbox.")


def live(folder: Path, plan: str, owners: int = OWNERS, *sizes: int) -> int:
    """Have a process go on with it; return how it ended."""
    folder.mkdir(exist_ok=True)
    agents, controls = sizes or (AGENTS, CONTROLS)
    module = "tests.support.herd_storm"
    said = subprocess.run(
        [sys.executable, "-m", module, str(folder), *map(str, (owners, agents, controls)), plan],
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    assert said.returncode in (0, KILLED), said.stderr
    return said.returncode


def passes(folder: Path, controls: int) -> Counter[str]:
    """Return how often one owner with one agent passes each crash point."""
    names = folder / f"points-{controls}"
    assert live(folder / f"whole-{controls}", f"record:{names}", 1, 1, controls) == 0
    return Counter(names.read_text().split())


def expected_passes(folder: Path) -> dict[str, int]:
    """Return about how often all owners together pass each crash point if nobody dies."""
    few, more = passes(folder, EVERY), passes(folder, 2 * EVERY)
    each = {name: max(0, more[name] - few[name]) / EVERY for name in few | more}
    return {
        name: round(OWNERS * CONTROLS * of_control + OWNERS * AGENTS) or 1
        for name, of_control in each.items()
    }


def plans(expected: dict[str, int], chance: random.Random) -> Iterator[str]:
    """Yield where the processes die, one after the other: first at work, and then at the end.

    Each of them gets a share of the work done, so that the last one still has some of it to do.
    """
    late = sorted(name for name in expected if name.startswith(ENDS))
    early = sorted(expected.keys() - set(late))
    for number in range(LIVES):
        name = chance.choice(early if number < LIVES // 2 else late)
        most = max(1, 2 * expected[name] // LIVES)
        yield f"kill:{name}:{chance.randint(1, most)}"


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
    ended = [live(folder, plan) for plan in plans(expected_passes(tmp_path), chance)]
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
