"""Which command makes a worktree ready."""

import pytest

from engine.core.setup import MANAGERS, TELLING_FILES, Setup, SetupSource, detect_setup

SEVERAL = "lockfiles of several JavaScript package managers"


@pytest.mark.parametrize(
    ("files", "command"),
    [
        (["pnpm-lock.yaml"], "pnpm install --frozen-lockfile --prefer-offline"),
        (["bun.lock"], "bun install --frozen-lockfile"),
        (["bun.lock", "bun.lockb"], "bun install --frozen-lockfile"),
        (["yarn.lock"], "yarn install --frozen-lockfile"),
        (["yarn.lock", ".yarnrc.yml"], "yarn install --immutable"),
        (["package-lock.json"], "npm ci --prefer-offline --no-audit --no-fund"),
        (["npm-shrinkwrap.json"], "npm ci --prefer-offline --no-audit --no-fund"),
        (["uv.lock"], "uv sync --frozen"),
        (["poetry.lock"], "poetry install --no-interaction"),
        (["Pipfile.lock"], "pipenv sync"),
        (
            ["uv.lock", "package-lock.json"],
            "npm ci --prefer-offline --no-audit --no-fund && uv sync --frozen",
        ),
        (
            ["package-lock.json", ".yarnrc.yml"],
            "npm ci --prefer-offline --no-audit --no-fund",
        ),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, list) else "",
)
def test_lockfiles_decide_one_command_for_each_ecosystem(files: list[str], command: str) -> None:
    assert set(files) <= set(TELLING_FILES)
    assert detect_setup(files, MANAGERS) == Setup(SetupSource.DETECTED, command)


@pytest.mark.parametrize(
    ("files", "available", "reason"),
    [
        ([], MANAGERS, "no lockfile of a known package manager"),
        ([".yarnrc.yml"], MANAGERS, "no lockfile of a known package manager"),
        (
            ["package-lock.json", "yarn.lock"],
            MANAGERS,
            f"{SEVERAL}: yarn (yarn.lock) and npm (package-lock.json)",
        ),
        (
            ["bun.lock", "bun.lockb", "pnpm-lock.yaml", "uv.lock"],
            MANAGERS,
            f"{SEVERAL}: pnpm (pnpm-lock.yaml) and bun (bun.lock, bun.lockb)",
        ),
        (
            ["uv.lock", "Pipfile.lock", "package-lock.json"],
            (),
            "lockfiles of several Python package managers: uv (uv.lock) and pipenv (Pipfile.lock)",
        ),
        (["uv.lock", "package-lock.json"], ["npm"], "uv is not on PATH"),
        (["uv.lock", "package-lock.json"], [], "npm is not on PATH and uv is not on PATH"),
    ],
    ids=["nothing", "no-lockfile", "two", "three-names", "python", "one-absent", "both-absent"],
)
def test_what_cannot_be_decided_is_no_setup_with_a_reason(
    files: list[str], available: tuple[str, ...], reason: str
) -> None:
    assert detect_setup(files, available) == Setup(SetupSource.NONE, reason=reason)
