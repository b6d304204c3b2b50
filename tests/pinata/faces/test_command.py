"""What is printed as JSON means what it says and steers no terminal."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from engine.core.errors import UsageError
from engine.core.events import CancelRequested
from engine.core.ids import RunId, TaskId
from engine.core.quote import escape
from engine.core.view import RunView
from engine.records.event import Logged
from pinata.faces import cli, command
from pinata.faces.progress import Progress
from pinata.work.observer import OpenedRun

HOSTILE = "\x1b]0;x\x07\x9b31m\u202eX\u2028\x7f"


def nothing(*_: object, **__: object) -> None:
    raise AssertionError


async def nothing_recorded(reason: str, task: TaskId | None = None) -> None:
    raise AssertionError


def show_answer() -> None:
    command.show_json({"said": HOSTILE})


def show_refusal() -> None:
    cli._refuse(UsageError(HOSTILE), as_json=True)


def show_event() -> None:
    progress = Progress(as_json=True)
    progress.run_opened(
        OpenedRun(
            id=RunId("0" * 16),
            folder=Path("/nowhere"),
            started_at_ms=0,
            agents={},
            after={},
            view=RunView(),
            cancel=nothing,
            record_cancel=nothing_recorded,
            steer=nothing,
        )
    )
    progress.happened(Logged(1, 0, CancelRequested(HOSTILE)))
    progress.end()
    trio.run(progress.show)


@pytest.mark.parametrize("shown", [show_answer, show_refusal, show_event])
def test_json_of_the_command_line_steers_no_terminal_and_says_what_it_said(
    shown: Callable[[], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "terminal"
    with path.open("w", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.setattr(sys, "stderr", stream)
        shown()
    text = path.read_text("utf-8")
    assert escape(text) == text
    assert HOSTILE in json.loads(text).values()
