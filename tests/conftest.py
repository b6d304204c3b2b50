"""What holds for every test.

Git and pinata see no settings but the test's own, no child outlives its test, and nothing that
blocks runs on the loop's thread.
"""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.children import adopt_no_more, end_children
from tests.support.guard import guard_loop_thread, guard_pygit2

# A randomised test that is slow on a busy machine is not wrong, so none has a deadline of its own.
settings.register_profile("few", deadline=None, max_examples=50)
settings.register_profile("soak", deadline=None, max_examples=5_000)
settings.load_profile("few")

# Whoever starts the tests in the background, or without a terminal, has them ignore these, and so
# would all that they start.
for number, usual in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGQUIT, signal.SIG_DFL),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)

# What is loaded before the first test stays to the end, and is a million objects: the collector
# need not look through them again and again, neither while they are loaded nor later.
gc.disable()

# Variables that reach into Git or pinata from whoever runs the tests, which may be an agent: the
# tests run as checks of a run too.
_DROPPED = ("GIT_", "PINATA_", "PI_", "HERDR_", "XDG_")
# Servers of tests are on this machine, where no proxy finds them.
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")


def pytest_collection_finish() -> None:
    """Collect garbage from here on, without a look at what all tests share."""
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def hermetic_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home folder with an empty Git configuration and nothing else."""
    home = tmp_path_factory.mktemp("home")
    (home / "gitconfig").touch()
    return home


@pytest.fixture(autouse=True)
def hermetic_environment(hermetic_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the user's, the system's and the caller's settings from Git and from pinata."""
    for name in list(os.environ):
        if name.startswith(_DROPPED) or name.lower() in _PROXIES:
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(hermetic_home))
    for name in ("CONFIG", "CACHE", "DATA", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(hermetic_home / name.lower()))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(hermetic_home / "gitconfig"))


@pytest.fixture(scope="session", autouse=True)
def guarded_loop_thread() -> Iterator[None]:
    """Let whatever blocks raise when it is called on the loop's own thread."""
    with pytest.MonkeyPatch.context() as patch:
        guard_loop_thread(patch)
        # Only the tests of a few packages have imported it by now; the others need not wait for it.
        if "pygit2" in sys.modules:
            guard_pygit2(patch)
            _forget_libgit2_search_paths()
        yield


@pytest.fixture(autouse=True)
def no_child_left() -> Iterator[None]:
    """Fail the test that leaves a child process running or uncollected.

    What a test has this process adopt is over with it: orphans that others start stay nobody's.
    """
    yield
    left = end_children()
    adopt_no_more()
    assert not left, f"the test left child processes behind: {left}"


def _forget_libgit2_search_paths() -> None:
    """Keep libgit2 from the configuration files of the user and the system."""
    pygit2 = sys.modules["pygit2"]
    level = pygit2.enums.ConfigLevel
    for one in (level.PROGRAMDATA, level.SYSTEM, level.XDG, level.GLOBAL):
        pygit2.settings.search_path[one] = ""
