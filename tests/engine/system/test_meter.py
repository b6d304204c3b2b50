import secrets
from dataclasses import dataclass, field

import pytest
import trio

from engine.system.launch import LaunchError
from engine.system.meter import Program, Resources, measure_programs
from engine.system.process import run
from tests.support.programs import shell, spec

TOKEN = secrets.token_hex(16)


@dataclass(slots=True)
class Listener:
    """A meter that keeps what it hears."""

    heard: list[str] = field(default_factory=list)

    def began(self, program: Program) -> None:
        self.heard.append(f"{program.label} began")

    async def ended(self, program: Program) -> None:
        await trio.lowlevel.checkpoint()
        self.heard.append(f"{program.label} ended")


async def test_programs_of_a_token_are_measured_from_start_to_end() -> None:
    listener = Listener()
    with measure_programs(TOKEN, listener):
        await run(spec(("true",), mark=f"{TOKEN}/fix@1"))
        await run(spec(("true",), mark="4567/fix@2"))
        await run(spec(("true",)))
        with pytest.raises(LaunchError):
            await run(spec(("/no/such/program",), mark=f"{TOKEN}/fix@3"))
    await run(spec(("true",), mark=f"{TOKEN}/fix@4"))
    assert listener.heard == ["fix@1 began", "fix@1 ended"]


async def test_a_program_that_is_stopped_is_measured_to_its_end() -> None:
    listener = Listener()
    with measure_programs(TOKEN, listener), trio.CancelScope() as scope:
        await run(spec(shell("sleep 60"), mark=f"{TOKEN}/fix@1"), started=lambda _: scope.cancel())
    assert listener.heard == ["fix@1 began", "fix@1 ended"]


def test_what_two_use_is_added_where_the_kernel_tells_it() -> None:
    one, other = Resources(1.5, 10, 1, None, 3), Resources(0.5, 20, 2, None, None)
    assert one.plus(other) == other.plus(one) == Resources(2.0, 30, 3, None, 3)
    assert Resources().plus(one) == one
    assert one.plus(Resources(written_bytes=4)).written_bytes == 7


def test_what_was_used_once_stays_used_and_what_is_held_does_not() -> None:
    before, later = Resources(1.5, 10, 2, 7, None), Resources(0.5, 5, 1, 6, 3)
    assert before.followed_by(later) == Resources(1.5, 5, 1, 7, 3)
    assert before.followed_by(Resources()) == Resources(1.5, 0, 0, 7, None)
