"""A wheel of pinata adds one folder to an environment and stays out of other packages' way."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import pinata

pytestmark = [pytest.mark.slow, pytest.mark.unmeasured]

ROOT = Path(__file__).resolve().parents[1]
PARTS = {"agents", "checks", "engine", "worktrees"}


def run(*argv: str | Path, cwd: Path) -> str:
    # Nothing of the calling environment may reach into the fresh one: no PYTHONPATH, no index.
    env = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    env |= {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        argv,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(
        *(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index"),
        *("--no-build-isolation", "--wheel-dir", folder, ROOT),
        cwd=folder,
    )
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the interpreter of an environment that got an `agents` of its own, then the wheel."""
    environment = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", environment, cwd=environment)
    stand_in = site_packages(environment) / "agents"
    stand_in.mkdir()
    (stand_in / "__init__.py").write_text('OWNER = "somebody else"\n')
    interpreter = environment / "bin" / "python"
    run(
        *(sys.executable, "-m", "pip", "--python", interpreter, "install", "--quiet"),
        *("--no-deps", "--no-index", "--no-compile", wheel),
        cwd=environment,
    )
    return interpreter


def site_packages(environment: Path) -> Path:
    (found,) = environment.glob("lib/python*/site-packages")
    return found


def test_wheel_carries_the_parts_inside_pinata_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    tops = {name.split("/")[0] for name in names}
    parts = {name.split("/")[2] for name in names if name.startswith("pinata/_parts/")}
    assert tops == {"pinata", f"pinata_engine-{pinata.__version__}.dist-info"}
    assert parts == PARTS
    assert not [name for name in names if "__pycache__" in name or "node_modules" in name]


def test_wheel_carries_every_file_of_the_parts_that_git_knows(wheel: Path) -> None:
    listed = run("git", "-C", ROOT, "ls-files", "-z", *sorted(PARTS), cwd=ROOT).split("\0")
    known = {f"pinata/_parts/{name}" for name in listed if name and (ROOT / name).is_file()}
    with zipfile.ZipFile(wheel) as archive:
        assert known <= set(archive.namelist())


def test_installing_adds_one_package_beside_another_called_agents(python: Path) -> None:
    added = {entry.name for entry in site_packages(python.parents[1]).iterdir()}
    assert added == {"agents", "pinata", f"pinata_engine-{pinata.__version__}.dist-info"}


def test_another_package_called_agents_still_imports_as_itself(python: Path) -> None:
    assert run(python, "-c", "import agents; print(agents.OWNER)", cwd=python.parent) == (
        "somebody else\n"
    )


def test_installed_pinata_finds_its_own_agents_first(python: Path) -> None:
    program = "import pinata, agents, engine.core.ids; print(agents.__file__)"
    expected = site_packages(python.parents[1]) / "pinata" / "_parts" / "agents" / "__init__.py"
    assert run(python, "-c", program, cwd=python.parent).strip() == str(expected.resolve())


def test_installed_program_tells_its_version_without_any_other_package(python: Path) -> None:
    expected = f"pinata {pinata.__version__}\n"
    assert run(python.parent / "pinata", "--version", cwd=python.parent) == expected
    assert run(python, "-m", "pinata", "--version", cwd=python.parent) == expected
