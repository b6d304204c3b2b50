"""What is left of mailboxes when a process dies at any step, or anything at all is put there."""

import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import trio
from hypothesis import given, strategies as st

from agents.herdsman.errors import HerdError
from agents.herdsman.findings import Unreadable
from agents.herdsman.mailbox import Mailbox
from agents.herdsman.mailbox_folder import MailboxFolder
from agents.herdsman.premises import Premises
from agents.herdsman.record import Contents
from agents.herdsman.record_form import STATE, UnreadableRecordError
from agents.herdsman.scan import scan
from tests.support.deaths import Died, dying_at, passed_points
from tests.support.guard import blocking_allowed
from tests.support.herd_boxes import (
    Full,
    box_of,
    premises_at,
    question,
    result,
    steer,
    tree,
)
from tests.support.herd_records import NOW_MS, TASK, request, state_of

ROOT = Path(__file__).resolve().parents[3]
SCOUT = state_of("scout", active=TASK)
DONE = replace(SCOUT, active=None, completed=TASK)
Step = Callable[[Mailbox], Awaitable[None]]
Making = Callable[[Premises], Awaitable[Mailbox]]

STEPS: dict[str, Step] = {
    "state": lambda box: box.write_state(DONE),
    "activity": lambda box: box.write_state(replace(SCOUT, last_activity_ms=NOW_MS), flush=False),
    "request": lambda box: box.write_request(steer(SCOUT, "more")),
    "ask": lambda box: box.write_ask(replace(question(SCOUT), question="What?")),
    "result": lambda box: box.write_result(result(SCOUT, text="more")),
    "request's end": lambda box: box.remove_request(request("steer")),
    "ask's end": lambda box: box.remove_ask(),
    "result's end": lambda box: box.remove_result(TASK),
}

# Writes a state and dies in the midst of it.
WRITER = """
import sys, trio
from dataclasses import replace
from pathlib import Path
from engine.system import faults
from tests.support.herd_boxes import box_of, premises_at
from tests.support.herd_records import TASK, state_of

faults.install(sys.argv[2])
done = state_of("scout", completed=TASK)
trio.run(box_of(premises_at(Path(sys.argv[1]))).write_state, done)
"""


def end_of_writer(path: Path, plan: str) -> int:
    argv = [sys.executable, "-c", WRITER, str(path), plan]
    return subprocess.run(argv, cwd=ROOT, check=False).returncode


async def ending_at(path: Path, prepare: Making, step: Step) -> int:
    """Have a step die at each of its points, each time in a new place.

    Whatever the point, what is there afterwards is what was there before, or after the whole step.
    Return how many points there were.
    """
    whole = await prepare(premises_at(path / "whole"))
    before = tree(whole.folder)
    with passed_points() as points:
        await step(whole)
    after = tree(whole.folder)
    assert before != after
    for number, name in enumerate(points):
        mailbox = await prepare(premises_at(path / str(number)))
        with dying_at(name, points[: number + 1].count(name)) as death, suppress(Died):
            await step(mailbox)
        assert death.happened
        assert tree(mailbox.folder) in (before, after)
        await step(mailbox)
        assert tree(mailbox.folder) == after
    return len(points)


async def full_mailbox(premises: Premises) -> Mailbox:
    return (await Full.at(premises)).mailbox


@pytest.mark.parametrize("name", STEPS)
async def test_a_record_is_the_old_one_or_the_new_wherever_its_writer_dies(
    tmp_path: Path, name: str
) -> None:
    assert await ending_at(tmp_path, full_mailbox, STEPS[name]) >= 1


async def test_a_mailbox_is_made_whole_or_not_at_all(tmp_path: Path) -> None:
    async def nothing(premises: Premises) -> Mailbox:
        return box_of(premises)

    assert await ending_at(tmp_path, nothing, lambda box: box.write_state(SCOUT, creates=True)) == 4


async def test_a_mailbox_whose_removal_was_cut_off_is_found_until_it_is_done(
    tmp_path: Path,
) -> None:
    """As long as anything means something, the state says whose it is; after that, nothing does."""
    with passed_points() as points:
        full = await Full.at(premises_at(tmp_path / "whole"))
        del points[:]
        await full.mailbox.remove()
    assert len(points) == 7
    for number, name in enumerate(points):
        premises = premises_at(tmp_path / str(number))
        mailbox = (await Full.at(premises)).mailbox
        with dying_at(name, points[: number + 1].count(name)), suppress(Died):
            await mailbox.remove()
        left = tree(mailbox.folder)
        contents = await mailbox.read()
        assert (contents is None) is ("state.json" not in left)
        if contents is None:
            assert left == {}
            assert not await mailbox.is_occupied()
        await mailbox.remove()
        assert tree(premises.mailboxes) == {}


async def test_room_that_was_made_in_part_can_be_made_again(tmp_path: Path) -> None:
    async def left_over(premises: Premises) -> Mailbox:
        mailbox = await full_mailbox(premises)
        (mailbox.folder / "state.json").unlink()
        await mailbox.remove_request(request("steer"))
        return mailbox

    mailbox = await left_over(premises_at(tmp_path))
    with dying_at("herd.mailbox.emptying"), suppress(Died):
        await mailbox.reset()
    assert len(tree(mailbox.folder)) == 1
    await mailbox.reset()
    await mailbox.write_state(SCOUT, creates=True)
    assert await mailbox.read() == Contents(SCOUT)


@pytest.mark.slow
async def test_a_killed_writer_leaves_the_last_record_and_a_file_that_means_nothing(
    tmp_path: Path,
) -> None:
    mailbox = (await Full.at(premises_at(tmp_path))).mailbox
    before = await mailbox.read()
    with blocking_allowed():
        assert end_of_writer(tmp_path, "kill:herd.state.written:1") == -signal.SIGKILL
    [staged] = mailbox.folder.glob("*.tmp")
    assert await mailbox.read() == before
    assert STATE.decode(staged.read_bytes()).completed == TASK
    assert (await scan(mailbox.premises)).unreadable == ()
    await mailbox.remove()
    assert not mailbox.folder.exists()


_NAMES = st.sampled_from(
    (
        "state.json",
        "state.json",
        "ask.json",
        f"request-{TASK}.json",
        f"request-{request('one')}.json",
        f"request-{request('two')}.json",
        "request-x.json",
        f"result-{TASK}.json",
        ".state.json.0.tmp",
        "noise",
    )
)
_BYTES = st.one_of(
    st.binary(max_size=64),
    st.sampled_from(
        (
            STATE.encode(SCOUT),
            STATE.encode(DONE),
            STATE.encode(SCOUT)[:-1],
            STATE.encode(state_of("tester")),
            b'{"version":3}',
            b"",
        )
    ),
)


def _planted(folder: Path, files: dict[str, bytes]) -> Iterator[Path]:
    for name, data in files.items():
        path = folder / name
        path.write_bytes(data)
        yield path


@given(st.dictionaries(_NAMES, _BYTES, max_size=5))
def test_whatever_is_in_a_mailbox_is_read_or_told_and_never_taken_for_nothing(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]
) -> None:
    premises = premises_at(tmp_path_factory.mktemp("mailbox"))
    mailbox = box_of(premises)
    mailbox.folder.mkdir(parents=True)
    paths = list(_planted(mailbox.folder, files))
    folder = MailboxFolder.named(premises, mailbox.folder.name)
    found = trio.run(scan, premises)
    try:
        contents = folder.read()
    except UnreadableRecordError as fault:
        told = [Unreadable(mailbox.folder.name, f"mailbox {mailbox.folder.name}: {fault}")]
    else:
        told = []
        assert (contents is None) is ("state.json" not in files)
        assert found.contents == (() if contents is None else (contents,))
        if contents is not None:
            assert contents.state in (SCOUT, DONE)
            assert (contents.ask is None) is (contents.ask_fault is not None) or (
                "ask.json" not in files
            )
            assert (TASK in contents.results) is (f"result-{TASK}.json" in files)
    said = [Unreadable(one.folder, one.diagnostic[:60]) for one in found.unreadable]
    assert said == [replace(one, diagnostic=one.diagnostic[:60]) for one in told]
    assert all(path.exists() for path in paths)
    with suppress(HerdError):
        trio.run(mailbox.remove)
    assert not mailbox.folder.exists()
