"""Tools are found by name, and nobody waits for what is not asked for."""

import subprocess
import sys
from pathlib import Path

import pytest

from agents.herdsman.tool_names import HERD_TOOL_NAMES, LOOKING
from engine.core.errors import UsageError
from pinata import app
from pinata.tools.herd import TOOLS as HERD_TOOLS
from tests.support.projects import Project

HEAVY = {"networkx", "psutil", "pygit2", "yaml", "re2"}
# What a process needs that carries a run, is reached by others or changes a checkout.
OF_OWNERS = {
    "engine.core.reduce",
    "pinata.work.link",
    "pinata.work.runtime",
    "pinata.work.session",
    "worktrees.journal",
}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, {"a.txt": "one\n"})


async def test_unknown_tool_is_refused_naming_the_tools(project: Project) -> None:
    with pytest.raises(UsageError, match="the tools are pinata_run, "):
        await project.call("pinata_fly", {})
    with pytest.raises(UsageError, match="unknown tool 'resume'"):
        await project.call("resume", {"run": "ab"})


def test_every_tool_is_described_by_its_own_name() -> None:
    described = app.describe_tools()
    assert tuple(tool["name"] for tool in described) == app.TOOL_NAMES
    assert all(tool["description"] and tool["parameters"]["properties"] for tool in described)


def loaded_by(project: Project, *arguments: str) -> set[str]:
    """Return which modules a command loads."""
    code = (
        "import sys, os\n"
        f"sys.argv[1:] = {list(arguments)!r}\n"
        "from pinata.__main__ import main\n"
        "main()\n"
        "print('\\n'.join(sys.modules))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=project.repo.root,
        env=project.program_env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.splitlines())


@pytest.mark.slow
def test_agents_are_told_without_the_graph_library_and_libgit2(project: Project) -> None:
    assert loaded_by(project, "agents") & HEAVY == {"yaml"}


@pytest.mark.slow
def test_status_loads_nothing_large_that_it_does_not_use(project: Project) -> None:
    assert loaded_by(project, "status") & (HEAVY | OF_OWNERS) == set()


@pytest.mark.smoke
@pytest.mark.slow
def test_version_loads_nothing_from_outside(project: Project) -> None:
    outside = HEAVY | {"trio", "pydantic", "filelock", "attr"}
    assert loaded_by(project, "--version") & outside == set()


def test_tools_of_managed_agents_stand_behind_those_of_runs() -> None:
    names = [tool["name"] for tool in app.describe_all_tools()]
    assert names == [*app.TOOL_NAMES, *HERD_TOOL_NAMES]


def test_tools_that_may_be_called_from_an_agents_shell_are_those_that_change_nothing() -> None:
    assert {name for name, tool in HERD_TOOLS.items() if not tool.changes_state} == LOOKING
