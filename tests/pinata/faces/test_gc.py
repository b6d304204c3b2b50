"""The command says what goes and what stays, and refuses what cannot have been meant."""

import json
import os
from pathlib import Path

import pytest

from engine.core.errors import UsageError
from engine.system import faults
from pinata.faces import cli
from pinata.faces.arguments import parse
from pinata.faces.gc import gc_lines
from tests.support.garbage import folder_of
from tests.support.projects import Project

RUN = "0123456789abcdef"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--confirm", "--confirm"],
        ["--json", "--confirm", "--json"],
        ["--conf"],
        ["--force"],
        ["--discard"],
        ["0123"],
    ],
)
def test_flag_that_is_unknown_or_repeated_is_refused(arguments: list[str]) -> None:
    with pytest.raises(UsageError):
        parse(["gc", *arguments])


def test_flags_are_what_was_given() -> None:
    given = parse(["gc", "--confirm", "--discard", "0123", "--discard", "4567"])
    assert (given.confirm, given.json, given.discard) == (True, False, ["0123", "4567"])
    assert parse(["gc"]).discard is None


def test_preview_says_how_to_go_on() -> None:
    worktree = {"what": "worktree", "name": "/w/\x1bfix", "run": RUN}
    reason = "it is owned by process 7"
    answer = {
        "confirmed": False,
        "retired": [RUN],
        "removable": [worktree, {"what": "file", "name": "/v"}],
        "kept": [{"what": "run", "name": RUN, "run": RUN, "reason": reason}],
        "failed": [],
    }
    assert list(gc_lines(answer)) == [
        "would remove worktree /w/\\x1bfix of run 01234567",
        "would remove file /v",
        "would retire run 01234567",
        "kept run 01234567: it is owned by process 7",
        "nothing was changed: add --confirm to do it",
    ]


def test_confirmed_call_says_what_was_done_and_what_failed() -> None:
    ref = {"what": "ref", "name": "refs/pinata/x/base", "run": RUN}
    answer = {
        "confirmed": True,
        "retired": [RUN],
        "removed": [ref],
        "kept": [],
        "failed": [ref | {"reason": "the disk is full"}],
    }
    assert list(gc_lines(answer)) == [
        "removed ref refs/pinata/x/base of run 01234567",
        "retired run 01234567",
        "failed ref refs/pinata/x/base of run 01234567: the disk is full",
    ]


def test_exit_code_says_whether_all_that_could_be_done_was_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    project = Project.create(tmp_path)
    monkeypatch.chdir(project.repo.root)
    assert cli.main(["gc"], project.env) == 0
    assert capfd.readouterr().out == "nothing to remove\n"
    folder_of(project, RUN).path.mkdir(parents=True)
    folder_of(project, RUN).run_file.mkdir()
    assert cli.main(["gc", "--confirm", "--json"], project.env) == 0
    (kept,) = json.loads(capfd.readouterr().out)["kept"]
    assert "run.json is not a regular file" in kept["reason"]
    half_made = folder_of(project, "1" * 16).path
    half_made.mkdir()
    os.utime(half_made, (0, 0))
    try:
        faults.install("error:gc.creation:1:EIO")
        assert cli.main(["gc", "--confirm"], project.env) == 1
    finally:
        faults.install("")
    assert "failed run 11111111: Input/output error" in capfd.readouterr().out
    assert cli.main(["gc", "--discard", "ffff"], project.env) == 2
    assert cli.main(["gc"], project.env | {"PINATA_AGENT": "1"}) == 4
