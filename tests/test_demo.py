"""The demo tells its story, leaves nothing behind, and is what the README shows."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
RUN_ID = re.compile(r"\b[0-9a-f]{8,}\b")


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def demo(scratch: Path) -> str:
    """Return what the demo prints when nothing is set but the path and a folder for its files."""
    env = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "TMPDIR": str(scratch),
    }
    done = subprocess.run(
        ["bash", ROOT / "examples" / "demo.sh"],
        cwd=scratch,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
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
    (example,) = re.findall(r"```console\n(\$ pinata run .*?)```", readme, re.DOTALL)
    printed = _comparable(demo)
    missing = [line for line in _comparable(example) if line and line not in printed]
    assert missing == []


def _comparable(text: str) -> list[str]:
    """Return the lines of `text` without what differs from run to run: ids and times."""
    plain = re.sub(r"\b\d+(?:\.\d+)? ?m?s\b", "TIME", RUN_ID.sub("RUN", text))
    plain = re.sub(r"^ +\d+\.\d\d  ", "TIME  ", plain, flags=re.MULTILINE)
    return [line.rstrip() for line in plain.splitlines()]
