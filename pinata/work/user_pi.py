"""The user's Pi, looked for once in a run, and only where an agent is to be one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import trio

from agents.models.routes import PiRoute
from agents.pi_program import PiMissingError, PiProgram, find_pi, missing_helpers
from engine.core.environment import child_environment
from engine.core.quote import name_list
from pinata.work.context import Context


@dataclass(frozen=True, slots=True)
class PiWay:
    """How an agent comes to its model that is a Pi of its own.

    Attributes:
        program: the Pi.
        environment: everything that it and the agent's programs see.
        missing: the program that each of its tools lacks, for those that lack one.
        route: to the model.
    """

    program: PiProgram
    environment: Mapping[str, str] = field(repr=False)
    missing: Mapping[str, str]
    route: PiRoute


@dataclass(slots=True)
class UserPi:
    """Finds the user's Pi.

    Attributes:
        environment: what an agent that is a Pi sees; the only one that Pi is started with.
        cwd: where the user stands.
        agent_dir: where Pi keeps its files, as far as that is known.
    """

    environment: Mapping[str, str]
    cwd: Path
    agent_dir: Path | None
    _found: PiProgram | PiMissingError | None = None
    _missing: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, context: Context, pass_env: tuple[str, ...]) -> "UserPi":
        """Return the Pi of whoever calls, for a run that hands `pass_env` on."""
        environment = child_environment(context.environment, pass_env)
        if context.agent_dir is not None:
            # Relative to where the user stands, and a Pi stands where its agent works.
            environment["PI_CODING_AGENT_DIR"] = str(context.agent_dir)
        return cls(environment, context.cwd, context.agent_dir)

    async def way(self, route: PiRoute) -> PiWay:
        """Return how an agent comes to a model by itself, given the route that its Pi takes.

        Raises:
            PiMissingError: there is no Pi that can work with us.
        """
        if self._found is None:
            await self._look()
        if isinstance(self._found, PiMissingError):
            raise self._found
        assert self._found is not None
        return PiWay(self._found, self.environment, self._missing, route)

    async def _look(self) -> None:
        try:
            self._found = await find_pi(self.environment, self.cwd)
        except PiMissingError as error:
            self._found = error
        else:
            self._missing = await trio.to_thread.run_sync(
                missing_helpers, self.environment, self.agent_dir
            )


def lack_notices(ways: Mapping[str, tuple[PiWay, Sequence[str]]]) -> list[str]:
    """Return a notice about the tools that agents are to have and that their Pi cannot offer.

    Args:
        ways: by the id of its task, of each agent that is a Pi, with the tools that it is to have.
    """
    tasks, lacked = [], dict[str, str]()
    for task, (way, tools) in ways.items():
        lacks = {tool: way.missing[tool] for tool in tools if tool in way.missing}
        if lacks:
            tasks.append(task)
            lacked |= lacks
    if not tasks:
        return []
    who = f"task {tasks[0]}" if len(tasks) == 1 else f"tasks {name_list(tasks)}"
    tools, programs = (name_list(list(each)) for each in (lacked, lacked.values()))
    return [f"without {programs} on PATH, the Pi of {who} offers no {tools}"]
