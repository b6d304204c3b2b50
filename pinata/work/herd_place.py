"""Where a caller of the herd stands, and where the herd's data of its user lies."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trio

from agents.herdsman.premises import Premises
from agents.roster import Roster
from engine.core.errors import ConflictError, ExternalError, UsageError
from pinata.work.context import Context
from pinata.work.definitions import read_roster
from pinata.work.trust import judge_project
from worktrees.discovery import discover

# In the Pi agent directory, beside what Pi keeps there.
DATA_FOLDER: Final = "pinata"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a session stands.

    Attributes:
        cwd: absolute.
        trust: see `pinata.work.context.Context.project_trust`.
    """

    cwd: Path
    trust: bool | None


@dataclass(frozen=True, slots=True)
class Ground:
    """A place as the herd names it.

    Attributes:
        cwd: real.
        workspace: the top of the working tree around it; itself where Git says that there is none,
            or none that pinata can work with.
        trust: as in `Place`.
    """

    cwd: Path
    workspace: Path
    trust: bool | None


async def find_ground(context: Context, place: Place) -> Ground:
    """Return how the herd names a place.

    Raises:
        ExternalError: Git did not say. Another name in the meantime would free labels that are
            taken.
    """
    cwd = await trio.to_thread.run_sync(place.cwd.resolve)
    try:
        top = (await discover(cwd, context.environment)).root
    except (UsageError, ConflictError):
        return Ground(cwd, cwd, place.trust)
    except ExternalError as error:
        raise ExternalError(f"cannot tell which repository {cwd} is in: {error}") from error
    return Ground(cwd, await trio.to_thread.run_sync(top.resolve), place.trust)


async def current_roster(context: Context, ground: Ground) -> Roster:
    """Return the definitions that hold in a workspace now.

    Raises:
        PinataError: they cannot be read.
    """
    folder, root = context.agent_dir, ground.workspace

    def read() -> Roster:
        return read_roster(folder, judge_project(root, folder, stated=ground.trust))

    return await trio.to_thread.run_sync(read)


def premises_of(context: Context) -> Premises:
    """Return where the herd of the caller's user keeps its data.

    Raises:
        UsageError: the environment names no home.
    """
    folder = context.agent_dir
    if folder is None:
        raise UsageError("agents need a place for their data: set HOME, or PI_CODING_AGENT_DIR")
    return Premises(folder / DATA_FOLDER, context.clock, context.holder)
