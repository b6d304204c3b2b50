"""What is asked of gh, with what, and what becomes of an answer that does not come."""

import json
import os
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from engine.core.environment import child_environment
from engine.core.errors import ExternalError
from pinata.work.github import ACCESS, ask_pull_request
from tests.support.github import NUMBER, PAGE
from tests.support.programs import is_running, open_beacon

MARK = "0123456789abcdef/git"
SECRETS = {name: f"secret of {name}" for name in ACCESS}
ANSWER = json.dumps(
    {
        "number": NUMBER,
        "title": "Round halves up",
        "url": f"{PAGE}/{NUMBER}",
        "headRefOid": "1" * 40,
        "baseRefName": "main",
    }
)


def stand_in(folder: Path, script: str) -> dict[str, str]:
    """Return an environment in which `gh` is a shell script."""
    program = folder / "gh"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "HOME": str(folder), "OWN": "x"}


def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


async def test_gh_gets_what_lets_it_in_and_nobody_to_ask(tmp_path: Path) -> None:
    script = f"echo \"$*\" > asked; env > seen; cat > input; echo '{ANSWER}'"
    env = stand_in(tmp_path, script) | SECRETS | {"SSH_ASKPASS": "window", "GIT_DIR": "elsewhere"}
    place = scratch(tmp_path)
    facts = await ask_pull_request(tmp_path, env, NUMBER, place, MARK)
    assert facts.branch == "main"
    asked = (tmp_path / "asked").read_text()
    assert asked == "pr view 7 --json number,title,url,headRefOid,baseRefName\n"
    assert (tmp_path / "input").read_bytes() == b""
    seen = dict(line.split("=", 1) for line in (tmp_path / "seen").read_text().splitlines())
    assert SECRETS.items() <= seen.items()
    assert (seen["GH_PROMPT_DISABLED"], seen["GIT_TERMINAL_PROMPT"]) == ("1", "0")
    assert (seen["GIT_ASKPASS"], seen["SSH_ASKPASS"]) == ("", "")
    assert not {"OWN", "GIT_DIR"} & seen.keys()
    assert list(place.iterdir()) == []


def test_agents_and_checks_get_nothing_of_what_lets_gh_in() -> None:
    assert not ACCESS & child_environment(SECRETS | {"PATH": "/bin"}).keys()


async def test_a_missing_gh_is_said_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(ExternalError, match=r"cannot be started .*; install it and"):
        await ask_pull_request(tmp_path, {"PATH": str(tmp_path)}, NUMBER, scratch(tmp_path), MARK)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (
            "echo 'no such pull\nrequest' >&2; exit 1",
            "cannot show the pull request: no such pull r",
        ),
        ("exit 4", "cannot show the pull request: it gave no reason"),
        ("printf 'a\\033[31mb' >&2; exit 1", r"cannot show the pull request: a\\x1b\[31mb"),
        ("kill -9 $$", "cannot show the pull request"),
        ("read answer || exit 1; echo {}", "cannot show the pull request"),
        ("yes", "gh wrote more than an answer"),
        ("yes >&2", "gh wrote more than an answer"),
        ("echo '{}'", "not one about a pull request: number"),
    ],
    ids=["fails", "silent", "colours", "killed", "asks", "floods", "complains", "odd"],
)
async def test_a_gh_that_does_not_answer_is_told_in_one_sentence(
    tmp_path: Path, script: str, said: str
) -> None:
    place = scratch(tmp_path)
    with pytest.raises(ExternalError, match=said):
        await ask_pull_request(tmp_path, stand_in(tmp_path, script), NUMBER, place, MARK)
    assert list(place.iterdir()) == []


async def test_a_gh_that_hangs_is_stopped_with_its_children(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    place = scratch(tmp_path)
    with open_beacon(tmp_path) as beacon:
        script = f"sleep 1000 & echo $! > {beacon.path}; echo $$ > {beacon.path}; wait"
        pids: list[int] = []

        async def let_time_pass() -> None:
            pids.extend([await beacon.pid(), await beacon.pid()])
            mock_clock.jump(61.0)
            mock_clock.rate = 1.0

        async with trio.open_nursery() as nursery:
            nursery.start_soon(let_time_pass)
            with pytest.raises(ExternalError, match="gh did not answer within 60 seconds"):
                await ask_pull_request(tmp_path, stand_in(tmp_path, script), NUMBER, place, MARK)
        assert not any(map(is_running, pids))
    assert list(place.iterdir()) == []
