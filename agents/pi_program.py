"""The user's Pi: where it is, which one it is, and whether it can work with us."""

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import trio

from engine.core.errors import ExternalError, PinataError
from engine.records.json_text import decode_json
from engine.system import files
from engine.system.process import ProcessSpec, run

PACKAGE: Final = "@earendil-works/pi-coding-agent"
COORDINATOR: Final = Path(__file__).resolve().parent / "pi" / "coordinator"
CHILD: Final = Path(__file__).resolve().parent / "pi" / "child"
MANAGED: Final = Path(__file__).resolve().parent / "pi" / "managed"
# Programs that tools of Pi's are made of, by the names under which it looks for them.
_HELPERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"grep": ("rg",), "find": ("fd", "fdfind")}
)
_SUPPORTED = "1."
_OLDEST_NODE = (22, 19)
_JSON_LIMIT_BYTES = 1 << 20
_VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)\b")


class PiMissingError(ExternalError):
    """There is no Pi that can work with us."""


@dataclass(frozen=True, slots=True)
class PiProgram:
    """An installed Pi.

    Attributes:
        path: the program as it was found.
        node: the Node that it runs on.
    """

    path: Path
    version: str
    node: Path
    node_version: str

    @property
    def argv(self) -> tuple[str, ...]:
        """What a command line of Pi's begins with.

        Started through its Node, so that no other program is picked by the script's first line.
        """
        return str(self.node), str(self.path.resolve())


async def find_pi(environment: Mapping[str, str], cwd: Path) -> PiProgram:
    """Return the Pi on the PATH of `environment`.

    Raises:
        PiMissingError: there is none, its version is one that we do not know, or it has no Node
            that is new enough.
    """
    path, version, node = await trio.to_thread.run_sync(_look, environment.get("PATH", ""))
    node_version = await _node_version(node, environment, cwd)
    return PiProgram(path, version, node, node_version)


def _look(search: str) -> tuple[Path, str, Path]:
    """Return where Pi is, its version and where its Node is."""
    path = shutil.which("pi", path=search)
    if path is None:
        raise PiMissingError(f"there is no pi on PATH: install it with npm install -g {PACKAGE}")
    version = _version_of(Path(path))
    if version is None:
        raise PiMissingError(f"{path} is not Pi as npm installs it: install {PACKAGE} with npm")
    if not version.startswith(_SUPPORTED):
        raise PiMissingError(
            f"{path} is Pi {version}, and pinata works with Pi {_SUPPORTED}x: "
            f"npm install -g {PACKAGE}@1"
        )
    node = shutil.which("node", path=search)
    if node is None:
        raise PiMissingError(f"{path} needs Node, and there is no node on PATH: install Node 24")
    return Path(path), version, Path(node)


def _version_of(path: Path) -> str | None:
    """Return the version of the package that a program belongs to, if that is Pi's; blocks."""
    for folder in path.resolve().parents:
        manifest = _read_object(folder / "package.json")
        if manifest is not None and manifest.get("name") == PACKAGE:
            version = manifest.get("version")
            return version if isinstance(version, str) else None
    return None


def _read_object(path: Path) -> dict[str, Any] | None:
    try:
        found = decode_json(files.read_input(path, _JSON_LIMIT_BYTES), str(path))
    except PinataError:
        return None
    return found if isinstance(found, dict) else None


async def _node_version(node: Path, environment: Mapping[str, str], cwd: Path) -> str:
    ended = await run(ProcessSpec((str(node), "--version"), cwd, environment))
    said = ended.stdout.decode(errors="replace").strip()
    found = _VERSION.fullmatch(said)
    if ended.code != 0 or found is None:
        raise PiMissingError(f"{node} does not tell its version: install Node 24")
    if (int(found[1]), int(found[2])) < _OLDEST_NODE:
        oldest = ".".join(map(str, _OLDEST_NODE))
        raise PiMissingError(
            f"{node} is Node {said}, and Pi needs {oldest} or newer: install Node 24"
        )
    return said.removeprefix("v")


def missing_helpers(environment: Mapping[str, str], agent_dir: Path | None) -> Mapping[str, str]:
    """Return the program that each of Pi's tools lacks, for those that lack one; blocks.

    Args:
        environment: that Pi is started with.
        agent_dir: where Pi keeps what it fetched for itself.
    """
    search = environment.get("PATH", "")
    own = None if agent_dir is None else agent_dir / "bin"
    return {
        tool: names[0]
        for tool, names in _HELPERS.items()
        if not any(shutil.which(name, path=search) for name in names)
        and not (own is not None and (own / names[0]).exists())
    }


def has_coordinator(agent_dir: Path) -> bool:
    """Return whether the Pi that keeps its settings in `agent_dir` loads our extension; blocks."""
    settings = _read_object(agent_dir / "settings.json") or {}
    packages = settings.get("packages")
    for each in packages if isinstance(packages, list) else ():
        source = each.get("source") if isinstance(each, dict) else each
        if isinstance(source, str) and _is_coordinator(agent_dir, source):
            return True
    return False


def _is_coordinator(agent_dir: Path, source: str) -> bool:
    path = agent_dir / os.path.expanduser(source)  # noqa: PTH111 - a source need not be a path
    return os.path.realpath(path) == os.path.realpath(COORDINATOR)
