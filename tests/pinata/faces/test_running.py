"""What a person is told to do next after a run."""

from typing import Any

import pytest

from pinata.faces import running
from pinata.faces.command import Command


def review(of: str | None, status: str, verdict: str) -> dict[str, Any]:
    target = {"kind": "branch"} if of is None else {"task": of}
    return {"id": f"by-{of}", "status": status, "review": {"target": target, "verdict": verdict}}


def test_rejected_builders_are_named_once_each() -> None:
    tasks = [
        {"id": "fix", "status": "succeeded"},
        review("fix", "rejected", "changes_requested"),
        review("fix", "rejected", "changes_requested"),
        review("other", "succeeded", "approve"),
        review(None, "rejected", "changes_requested"),
    ]
    assert running._rejected({"tasks": tasks}) == ["fix"]


@pytest.mark.parametrize("name", ["run", "resume", "repair"])
def test_commands_that_carry_a_run_are_here(name: str) -> None:
    command: Command = running.COMMANDS[name]
    assert callable(command)
