"""A session that another one replaces before the program has answered."""

import json
from pathlib import Path

import pytest
import trio

from agents.pi_program import COORDINATOR
from tests.support.real_pi import NODE, PI

pytestmark = pytest.mark.slow
PLAYED = Path(__file__).resolve().parents[2] / "support/replaced_pi.mjs"


async def test_nothing_of_a_replaced_session_is_touched_and_what_is_typed_is_offered_no_more(
    tmp_path: Path,
) -> None:
    program = tmp_path / "pinata"
    program.write_text("#!/bin/sh\nread hello\nread goodbye\n")
    program.chmod(0o755)
    with trio.fail_after(60):
        done = await trio.run_process(
            [
                str(NODE),
                "--no-warnings",
                str(PLAYED),
                str(COORDINATOR / "index.ts"),
                str(PI.parents[1] / "@earendil-works"),
            ],
            env={"PATH": "/usr/bin:/bin", "PINATA_PROGRAM": str(program)},
            capture_stdout=True,
        )
    assert json.loads(done.stdout) == {
        "after": [],
        "thrown": None,
        "partly": ["runs"],
        "whole": [],
    }
