"""Which definitions a call can use: the bundled ones, a trusted project's, then the user's."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from agents.definition import Definition, Source
from agents.definition_folder import find_definition_files
from agents.roster import BUNDLED, Layer, Roster, load_roster
from pinata.work.trust import Project

USER_FOLDER = "agents"
PROJECT_FOLDER = Path(".pi") / "agents"


def read_roster(agent_dir: Path | None, project: Project | None) -> Roster:
    """Return the roster; blocks.

    Args:
        agent_dir: the Pi agent directory, which holds the user's definitions.
        project: the checkout that they are wanted for; None outside of any.
    """
    layers = [BUNDLED]
    ignored: tuple[str, ...] = ()
    if project is not None:
        folder = project.root / PROJECT_FOLDER
        if project.is_trusted:
            layers.append(Layer(Source.PROJECT, folder, within=project.root))
        elif _holds_something(folder):
            ignored = (project.ignored(folder),)
    if agent_dir is not None:
        layers.append(Layer(Source.USER, agent_dir / USER_FOLDER))
    roster = load_roster(layers)
    return replace(roster, notices=(*ignored, *roster.notices))


def _holds_something(folder: Path) -> bool:
    found = find_definition_files(folder)
    return bool(found.files or found.notices)


def changed_since(stored: Iterable[Definition], current: Mapping[str, Definition]) -> list[str]:
    """Return a notice for each definition that a run keeps though its files say otherwise now.

    Args:
        stored: as they were when the run started.
        current: those that a new run could use.
    """
    return [
        f"agent {one.name}: its definition has changed since the run started, "
        "which goes on with the one that it started with"
        for one in stored
        if one.name not in current or current[one.name].digest != one.digest
    ]
