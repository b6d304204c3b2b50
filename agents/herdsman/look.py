"""One look at the herd: every mailbox, what is there, and which conversations are saved.

All that is shown or decided at one moment comes from one of these.
"""

import stat
from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from pathlib import Path

import trio

from agents.herdsman.caller import Caller
from agents.herdsman.errors import HerdError, ambiguous, broken, not_found
from agents.herdsman.findings import Scan
from agents.herdsman.ownership import Family, Visible
from agents.herdsman.preflight import ClosePlan, plan_close
from agents.herdsman.premises import Premises
from agents.herdsman.presence import Observed, Sightings
from agents.herdsman.projection import Evidence, available_tools
from agents.herdsman.record import Contents, State
from agents.herdsman.runtime import Inventory, Runtime
from agents.herdsman.scan import scan
from engine.core.errors import ExternalError


class Look:
    """What one look found.

    Attributes:
        scan: the mailboxes.
        inventory: what is there, a moment later.
        now_ms: when that was.
        saved: session files of generations that are regular files and hold something.
    """

    def __init__(
        self, scan: Scan, inventory: Inventory, now_ms: int, saved: Collection[str] = ()
    ) -> None:
        """Keep what was found, sorted once for all that is asked of it."""
        self.scan = scan
        self.inventory = inventory
        self.now_ms = now_ms
        self.saved = frozenset(saved)
        self._sightings = Sightings(inventory)
        self._families: dict[str, Family] = {}

    def family(self, workspace: str) -> Family:
        """Return the generations of a workspace."""
        if workspace not in self._families:
            self._families[workspace] = Family(self.scan.contents, workspace)
        return self._families[workspace]

    def view(self, caller: Caller) -> tuple[Visible, ...]:
        """Return what a caller may see: its own agents first, each group by label.

        A person's session may stand elsewhere by now, or its place be named otherwise, than when
        it started an agent; the agent is its own all the same. Those of an agent are all where it
        is itself.
        """
        if not caller.is_lead:
            family = self.family(caller.workspace)
            return tuple(Visible(one) for one in family.working_for(caller.session))
        states = (one.state.of for one in self.scan.contents)
        workspaces = {of.workspace for of in states if of.owner == caller.session}
        found = (self.family(each).below(caller.session) for each in workspaces)
        return tuple(sorted(chain.from_iterable(found), key=_order))

    def own(self, caller: Caller) -> tuple[Contents, ...]:
        """Return the agents that work for the caller itself, by label."""
        return tuple(one.contents for one in self.view(caller) if one.is_direct)

    def may_own_hidden(self, caller: Caller) -> bool:
        """Return whether the caller may have an agent whose mailbox cannot be read."""
        workspace = None if caller.is_lead else caller.workspace
        return any(one.may_be_of(caller.session, workspace) for one in self.scan.unreadable)

    def observe(self, state: State) -> Observed:
        """Return what the look shows of a generation."""
        return self._sightings.observe(state.identity)

    def evidence(self, contents: Contents) -> Evidence:
        """Return all that the look shows of a generation and of its own agents."""
        children = self.family(contents.state.of.workspace).children(contents)
        return Evidence(contents, self.observe(contents.state), children)

    def is_saved(self, state: State) -> bool:
        """Return whether a generation's conversation can be read from its file."""
        return state.session_file in self.saved

    def find(self, caller: Caller, label: str, *, workspace: str | None = None) -> Evidence:
        """Return the caller's own agent of a label, whether or not it is there.

        Args:
            caller: whose agent it is.
            label: of the agent.
            workspace: that it was started in; None where nobody said.

        Raises:
            HerdError: it has none (TARGET_NOT_FOUND), or more than one (TARGET_AMBIGUOUS).
        """
        found = [
            one
            for one in self.own(caller)
            if one.state.of.label == label and workspace in (None, one.state.of.workspace)
        ]
        if len(found) > 1:
            places = " and in ".join(one.state.of.workspace for one in found)
            raise ambiguous(
                f"more than one agent of this session is called {label!r}: in {places}",
                next_action="go on with something else: the result of each is delivered by itself",
            )
        if not found:
            raise not_found(
                f"no agent of this session is called {label!r}",
                next_action="call agent_list for the agents that there are",
            )
        return self.evidence(found[0])

    def may_have_hidden(self, contents: Contents) -> bool:
        """Return whether an agent may have agents of its own whose mailboxes cannot be read."""
        return any(one.may_work_for(contents.state) for one in self.scan.unreadable)

    def plan_close(self, caller: Caller, target: Contents) -> ClosePlan:
        """Return what closing an agent of the caller's own closes.

        Raises:
            HerdError: it cannot be closed now; see `agents.herdsman.preflight.plan_close`.
        """
        return plan_close(
            target,
            self.family(target.state.of.workspace),
            self.observe,
            is_lead=caller.is_lead,
            unreadable=self.scan.unreadable,
        )

    def tools(self, caller: Caller, visible: Visible) -> tuple[str, ...]:
        """Return what the caller could call now on an agent that it sees."""
        contents = visible.contents
        return available_tools(
            self.evidence(contents),
            is_direct=visible.is_direct,
            transcript_ready=self.is_saved(contents.state),
            closable=visible.is_direct and self._can_close(caller, contents),
        )

    def _can_close(self, caller: Caller, target: Contents) -> bool:
        try:
            self.plan_close(caller, target)
        except HerdError:
            return False
        return True


def _order(one: Visible) -> tuple[bool, str, str]:
    of = one.contents.state.of
    return not one.is_direct, of.label, of.workspace


async def look(premises: Premises, runtime: Runtime) -> Look:
    """Look at the whole herd once: one scan of the mailboxes, then one inventory.

    In this order, an agent that comes up in between is missing from the look; in the other one it
    would look lost.

    Raises:
        HerdError: either cannot be had, so nothing is known of anybody (INTERNAL_FAILURE).
    """
    try:
        found = await scan(premises)
        states = [one.state for one in found.contents]
        inventory = await runtime.inventory(states)
    except ExternalError as error:
        raise broken(
            f"cannot tell which agents are there: {error}", next_action="call again later"
        ) from error
    saved = await trio.to_thread.run_sync(_saved, [state.session_file for state in states])
    return Look(found, inventory, premises.clock.now_ms(), saved)


def _saved(files: Sequence[str]) -> frozenset[str]:
    return frozenset(_with_content(files))


def _with_content(files: Iterable[str]) -> Iterable[str]:
    for file in files:
        try:
            found = Path(file).stat()
        except (OSError, ValueError):
            continue
        if stat.S_ISREG(found.st_mode) and found.st_size > 0:
            yield file
