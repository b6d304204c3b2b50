import json
import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import pytest

from pinata.work.trust import Project, is_trusted, judge_project
from tests.support.privileges import unprivileged

ROOT = PurePosixPath("/home/u/src/app")


@pytest.mark.parametrize(
    ("saved", "trusted"),
    [
        ({}, False),
        ({"/home/u/src/app": True}, True),
        ({"/home/u/src": True}, True),
        ({"/": True}, True),
        ({"/home/u/src/app/sub": True}, False),
        ({"/home/u/src/ap": True}, False),
        ({"/home/u/src": True, "/home/u/src/app": False}, False),
        ({"/home/u/src": False, "/home/u/src/app": True}, True),
        ({"/home/u/src": True, "/home/u/src/app": None}, True),
    ],
)
def test_nearest_decision_of_pi_counts(saved: Mapping[str, bool | None], trusted: bool) -> None:  # noqa: FBT001 - a column of the table
    assert is_trusted(ROOT, saved, stated=None) is trusted


def test_what_the_caller_says_wins() -> None:
    assert is_trusted(ROOT, {"/": False}, stated=True)
    assert not is_trusted(ROOT, {"/": True}, stated=False)


def judged(tmp_path: Path, trust: object, *, stated: bool | None = None) -> Project:
    """Return what is thought of the project `tmp_path/repo`, with Pi's decisions as given."""
    (tmp_path / "trust.json").write_text(trust if isinstance(trust, str) else json.dumps(trust))
    return judge_project(tmp_path / "repo", tmp_path, stated=stated)


def test_decisions_are_about_real_folders(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "repo").symlink_to("real")
    assert judged(tmp_path, {str(tmp_path / "real"): True}).is_trusted
    assert judged(tmp_path, "\ufeff" + json.dumps({str(tmp_path): True})).is_trusted
    assert not judged(tmp_path, {str(tmp_path / "repo"): True}).is_trusted


def test_nobody_is_trusted_without_a_decision(tmp_path: Path) -> None:
    for agent_dir in (None, tmp_path / "missing"):
        project = judge_project(tmp_path, agent_dir, stated=None)
        assert project.ignored(Path("x")) == (
            "x is ignored: the project is not trusted; "
            "pass --trust-project, or decide with /trust in Pi"
        )


@pytest.mark.parametrize(
    ("trust", "fault"),
    [
        ("{", "line 1, column 2 is not JSON"),
        ([], "[] is not an object"),
        ({"/": "yes"}, '"/": must be true, false or null'),
        ({"/": 1}, '"/": must be true, false or null'),
    ],
)
def test_decisions_that_cannot_be_read_trust_nobody(
    tmp_path: Path, trust: object, fault: str
) -> None:
    objection = judged(tmp_path, trust).objection
    assert objection is not None
    assert objection.startswith(f"{tmp_path / 'trust.json'}: {fault}")
    assert objection.endswith("; mend it, or pass --trust-project")
    assert judged(tmp_path, trust, stated=True).is_trusted


def test_decisions_in_a_pipe_hold_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "trust.json")
    objection = judge_project(tmp_path, tmp_path, stated=None).objection
    assert objection is not None
    assert "trust.json is no regular file" in objection


def test_decisions_out_of_reach_trust_nobody(tmp_path: Path) -> None:
    (tmp_path / "pi").mkdir()
    (tmp_path / "pi").chmod(0)
    project = unprivileged(lambda: judge_project(tmp_path, tmp_path / "pi", stated=None))
    (tmp_path / "pi").chmod(0o700)
    assert project.objection is not None
    assert "trust.json cannot be read: Permission denied; mend it" in project.objection
