"""What a tool call works with: the caller's surroundings, handed in and never looked up."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from agents.traffic import Traffic
from engine.core.agent_dir import agent_dir
from engine.core.events import Sender
from engine.core.limiter import Limiter
from engine.system.clock import Clock
from pinata.work.observer import Observer
from pinata.work.shown import RunCache

if TYPE_CHECKING:  # they take long to load, and most calls come without
    from agents.herdsman.controller import Controller
    from agents.models.coordinator import Coordinator
    from pinata.work.link import Links
    from pinata.work.runtime import Runtime
    from pinata.work.session import Session


@dataclass(frozen=True, slots=True)
class Context:
    """The caller's surroundings.

    Attributes:
        environment: the caller's whole environment; what a child sees of it is decided elsewhere.
        shell: the program that reads shell scripts, with `-c` before the text.
        cwd: where the caller stands.
        base: what a relative `cwd` of a request starts from: a job file's folder, else `cwd`.
        holder: who we are, for the message that others get while we hold a lock.
        project_trust: what the caller says about trusting the project; None asks Pi's decisions.
        traffic: the way to models, and how much they bear; shared by all runs of this process.
        cache: what this process remembers of runs that it showed.
        runtime: the runs of a process that owns several and outlives calls; None in others.
        links: lets other processes reach the runs that a call carries; None where nothing can.
        sender: on whose behalf messages to agents are.
        session: who calls, where results are owed to somebody by name; None elsewhere.
        coordinator: lends models to agents, where a session's program can; None elsewhere.
        herd: who calls, as the owner of managed agents; None where there can be none.
    """

    environment: Mapping[str, str]
    shell: str
    cwd: Path
    base: Path
    clock: Clock
    holder: str
    project_trust: bool | None
    traffic: Traffic
    observer: Observer
    cache: RunCache = field(default_factory=RunCache)
    runtime: "Runtime | None" = None
    links: "Links | None" = None
    sender: Sender = Sender.PARENT
    session: "Session | None" = None
    coordinator: "Coordinator | None" = None
    herd: "Controller | None" = None

    def within(self, runtime: "Runtime") -> "Context":
        """Return the same surroundings in a process that owns runs beside each other."""
        return replace(
            self,
            runtime=runtime,
            traffic=runtime.traffic,
            cache=runtime.cache,
            links=runtime.links,
        )

    @property
    def agent_dir(self) -> Path | None:
        """The Pi agent directory of the caller, which need not be there."""
        found = agent_dir(self.environment)
        return None if found is None else self.cwd / found

    @property
    def limiter(self) -> Limiter:
        """What decides how many agents may work."""
        return self.traffic.limiter
