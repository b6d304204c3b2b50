"""A label is given once by a session, wherever it stands when it starts its agents."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from agents.herdsman.assignment import Order
from agents.herdsman.config import read_config
from agents.herdsman.controller import Controller
from agents.herdsman.delegate import delegate
from agents.herdsman.errors import Category, HerdError
from agents.herdsman.identity import Label
from agents.herdsman.runtime import Attendant
from agents.herdsman.startup import find_definition, start_agent
from tests.support.herd_desks import Desk, open_desk
from tests.support.herd_records import session

ROOT = Path(__file__).resolve().parents[3]
ROUNDS = 8
# Delegates from a workspace of its own, a round for each line of its input.
DELEGATES = """
import sys, trio
from pathlib import Path
from agents.herdsman.delegate import delegate
from agents.herdsman.errors import HerdError
from tests.support.herd_desks import open_desk

async def main():
    async with open_desk(Path(sys.argv[1])) as desk:
        caller = desk.controller(workspace=sys.argv[2], cwd=sys.argv[2])
        desk.runtime.handle_prefix = sys.argv[2]
        print("ready", flush=True)
        while label := (await trio.to_thread.run_sync(sys.stdin.readline)).strip():
            try:
                await delegate(caller, definition="scout", task="Look.", label=label, files=())
                print("has it", flush=True)
            except HerdError as error:
                print(error.trouble.category.value, flush=True)

trio.run(main)
"""


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with open_desk(tmp_path) as desk:
        yield desk


@pytest.fixture
def places(tmp_path: Path) -> tuple[str, str]:
    """Two workspaces that one session stands in, one after the other or at a time."""
    for name in ("left", "right"):
        (tmp_path / name).mkdir()
    return str(tmp_path / "left"), str(tmp_path / "right")


async def tried(controller: Controller, label: str | None = "scout") -> str:
    """Return the label of the agent that was started, or why there is none."""
    try:
        answer = await delegate(controller, definition="scout", task="Look.", label=label, files=())
    except HerdError as error:
        return error.trouble.category.value
    return str(answer["agent"])


async def tried_in_all(desk: Desk, places: tuple[str, str], **fields: Any) -> list[str]:
    """Return what comes of it when one session delegates from several places at a time."""
    found: list[str] = []

    async def one(place: str) -> None:
        found.append(await tried(desk.controller(workspace=place, cwd=place), **fields))

    async with trio.open_nursery() as nursery:
        for place in places:
            nursery.start_soon(one, place)
    return sorted(found)


async def test_one_of_two_places_that_start_the_same_label_at_a_time_has_it(
    herd_clock: MockClock, desk: Desk, places: tuple[str, str]
) -> None:
    assert await tried_in_all(desk, places) == ["agent_label_exists", "scout"]
    assert await desk.labels() == ["scout"]
    alive = [agent for agent in desk.runtime.agents if not agent.is_gone.is_set()]
    assert len(alive) == 1


async def test_label_that_was_given_elsewhere_since_it_was_looked_for_is_taken(
    herd_clock: MockClock, desk: Desk, places: tuple[str, str]
) -> None:
    left, right = (desk.controller(workspace=place, cwd=place) for place in places)
    order = Order(
        "delegate", await find_definition(right, "scout"), "Look.", (), Label("scout"), places[1]
    )
    assignment = await order.prepare(right, await read_config(desk.premises))
    assert await tried(left) == "scout"
    with pytest.raises(HerdError, match=places[0]) as caught:
        await start_agent(right, assignment, Label("scout"))
    assert caught.value.trouble.category is Category.AGENT_LABEL_EXISTS
    assert len(desk.runtime.agents) == 1


async def test_two_places_that_name_no_label_give_different_ones(
    herd_clock: MockClock, desk: Desk, places: tuple[str, str]
) -> None:
    assert await tried_in_all(desk, places, label=None) == ["scout", "scout-2"]


async def test_a_label_is_another_sessions_own_in_another_place(
    herd_clock: MockClock, desk: Desk, places: tuple[str, str]
) -> None:
    left, right = places
    other = desk.controller(session("another"), workspace=right, cwd=right)
    assert await tried(desk.controller(workspace=left, cwd=left)) == "scout"
    assert await tried(other) == "scout"


async def test_a_label_is_free_again_once_its_start_has_failed(
    herd_clock: MockClock, desk: Desk, places: tuple[str, str]
) -> None:
    left, right = (desk.controller(workspace=place, cwd=place) for place in places)

    def breaks(_: object) -> Attendant:
        raise AssertionError

    with pytest.raises(AssertionError):
        await tried(replace(left, attendant=breaks))
    assert await tried(right) == "scout"


@asynccontextmanager
async def delegating(home: Path, place: str) -> AsyncIterator[trio.Process]:
    """Have a process inside the block that delegates from a place; it is ready."""
    argv = [sys.executable, "-c", DELEGATES, str(home), place]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipe = subprocess.PIPE
    async with trio.open_nursery() as nursery:
        child = await nursery.start(
            partial(trio.run_process, argv, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe)
        )
        assert await line_of(child) == "ready"
        yield child
        await child.stdin.aclose()


async def line_of(child: trio.Process) -> str:
    """Return the next line that a process prints."""
    assert child.stdout is not None
    line = b""
    while not line.endswith(b"\n"):
        got = await child.stdout.receive_some(1)
        assert got, "the process has ended"
        line += got
    return line.decode().strip()


@pytest.mark.slow
async def test_one_of_two_processes_that_start_the_same_label_at_a_time_has_it(
    tmp_path: Path, places: tuple[str, str]
) -> None:
    left, right = places
    with trio.fail_after(60):
        async with delegating(tmp_path, left) as one, delegating(tmp_path, right) as other:
            for number in range(ROUNDS):
                for child in (one, other):
                    assert child.stdin is not None
                    await child.stdin.send_all(f"scout-{number}\n".encode())
                said = sorted([await line_of(one), await line_of(other)])
                assert said == ["agent_label_exists", "has it"], number
