"""The demo tells its story, leaves nothing behind, and is what the README shows."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.reader import blocks

pytestmark = [pytest.mark.slow, pytest.mark.unmeasured]

ROOT = Path(__file__).resolve().parents[1]
RUN_ID = re.compile(r"\b[0-9a-f]{8,}\b")
ELIDED = "…"


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def demo(scratch: Path) -> str:
    """Return what the demo shows when nothing is set but the path and a folder for its files."""
    env = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "TMPDIR": str(scratch),
    }
    done = subprocess.run(
        ["bash", ROOT / "examples" / "demo.sh"],
        cwd=scratch,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_demo_shows_every_command_before_its_output(demo: str) -> None:
    shown = re.findall(r"^\$ (\w+(?: [a-z]\w+)?)", demo, re.MULTILINE)
    assert shown == [
        "python3",
        "git diff",
        "pinata run",
        "pinata repair",
        "git status",
        "pinata status",
        "pinata integrate",
        "git diff",
        "pinata rollback",
        "git diff",
    ]


def test_demo_says_that_its_agents_are_scripted(demo: str) -> None:
    assert "The agents are scripted" in demo


def test_demo_ends_with_the_checkout_as_it_was_before_the_run(demo: str) -> None:
    before, _, after = (part.partition("\n\n")[0] for part in demo.split("\n$ git diff")[1:])
    edit = '+TITLE = "Corner Shop, 5 High Street"'
    assert edit in before
    assert after.strip() == before.strip()


def test_demo_leaves_nothing_behind(demo: str, scratch: Path) -> None:
    assert demo
    assert list(scratch.iterdir()) == []


def test_readme_shows_what_the_demo_really_prints(demo: str) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (example,) = (each for each in blocks(readme, "console") if "$ pinata run" in each.text)
    printed = _printed_by_command(demo)
    for command, shown in _printed_by_command(example.text).items():
        told = [line for line in shown if line != ELIDED]
        assert [line for line in told if line not in printed[command]] == [], command
        # Agents that work beside each other end in either order, so lines are only counted.
        assert (ELIDED in shown) == (len(told) < len(printed[command])), command


def _printed_by_command(text: str) -> dict[str, list[str]]:
    """Return what stands below each command up to an empty line, without ids and times."""
    parts = re.split(r"^\$ ", _comparable(text), flags=re.MULTILINE)[1:]
    listed = [part.partition("\n\n")[0].splitlines() for part in parts]
    return {command: lines for command, *lines in listed}


def _comparable(text: str) -> str:
    """Return `text` without what differs from run to run: ids and times."""
    plain = re.sub(r"\b\d+(?:\.\d+)? ?m?s\b", "TIME", RUN_ID.sub("RUN", text))
    return re.sub(r"^ +\d+\.\d\d  ", "TIME  ", plain, flags=re.MULTILINE)
