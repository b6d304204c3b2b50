"""Has the user's Pi load our extension, or no longer; nothing else writes to Pi's configuration."""

from argparse import Namespace
from collections.abc import Mapping

import trio

from agents.pi_program import COORDINATOR, PiProgram, find_pi, has_coordinator
from engine.core.agent_dir import agent_dir
from engine.core.errors import ExternalError
from engine.core.quote import one_line
from engine.system.process import ProcessSpec, run
from pinata import app
from pinata.faces.command import Command, here, show

_MOST_SAID = 500


async def _install(given: Namespace, environment: Mapping[str, str]) -> int:
    app.refuse_agents(environment)
    pi = await find_pi(environment, here())
    await _pi(pi, environment, "install")
    folder = agent_dir(environment)
    if folder is None or not await trio.to_thread.run_sync(has_coordinator, here() / folder):
        raise ExternalError("pi install reported success, but its settings do not name pinata")
    done = {"pi": pi.version, "installed": str(COORDINATOR)}
    show(given, done, lambda _: ("installed: the next pi session, or /reload, has the tools",))
    return 0


async def _uninstall(given: Namespace, environment: Mapping[str, str]) -> int:
    app.refuse_agents(environment)
    pi = await find_pi(environment, here())
    await _pi(pi, environment, "remove")
    done = {"pi": pi.version, "removed": str(COORDINATOR)}
    show(given, done, lambda _: ("removed: the next pi session is without the tools",))
    return 0


async def _pi(pi: PiProgram, environment: Mapping[str, str], verb: str) -> None:
    argv = (*pi.argv, verb, str(COORDINATOR))
    ended = await run(ProcessSpec(argv, here(), environment))
    if ended.code != 0:
        said = one_line((ended.stderr or ended.stdout).decode(errors="replace"), _MOST_SAID)
        raise ExternalError(f"pi {verb} failed: {said}")


COMMANDS: Mapping[str, Command] = {"install": _install, "uninstall": _uninstall}
