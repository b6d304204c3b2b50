"""A process with many owners and agents, all of them at work, that may be told to die anywhere.

    python -m tests.support.herd_storm FOLDER OWNERS AGENTS CONTROLS PLAN [SENT]

The plan says where the process dies, and counts from when so many controls were sent. The process
goes on where the last one with the same folder ended, and exits with 0 once each owner has sent its
agents all that it has to, and has the result of each of them. What an owner has tried is in its
journal, a line each: `try`, the number of the control and its kind before it is sent, and then
`sent` or `unsure` with that number. One that has no second line may have been sent.
"""

import itertools
import random
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import trio

from agents.definition import Source
from agents.herdsman.birth import Birth
from agents.herdsman.caller import Caller
from agents.herdsman.closing import close
from agents.herdsman.config import read_config
from agents.herdsman.controller import Controller
from agents.herdsman.controls import interrupt, steer
from agents.herdsman.delegate import delegate
from agents.herdsman.errors import Category, HerdError
from agents.herdsman.identity import Label, SessionId
from agents.herdsman.keeper import keep
from agents.herdsman.member import Member
from agents.herdsman.premises import Premises
from agents.herdsman.record import State
from agents.herdsman.runtime import GUIDANCE, RESULT, Attendant, Entry, Message
from agents.herdsman.scan import scan
from agents.herdsman.settlement import Undelivered
from agents.roster import Layer, Roster, load_roster
from engine.system import faults
from engine.system.clock import SystemClock
from tests.support.herd_agents import PlayedRuntime
from tests.support.herd_desks import MODEL
from tests.support.herd_lives import birth_of
from tests.support.herd_records import session
from tests.support.herd_talk import Call, Script, SessionLog, Turn

# How long an agent thinks, for each agent that there is: all must get to it on a small machine.
TURN_S = 0.02
# Before what was refused is tried again.
PAUSE_S = 0.05
# Every so many controls one is an interrupt.
EVERY = 3


def owner_file(folder: Path, owner: int) -> Path:
    """Return where an owner's conversation is."""
    return folder / "owners" / f"{owner}.jsonl"


def journal_file(folder: Path, owner: int) -> Path:
    """Return where an owner notes what it sends."""
    return folder / "owners" / f"{owner}.journal"


def labels_of(owner: int, agents: int) -> list[str]:
    """Return what an owner's agents are called."""
    return [f"o{owner}-a{number}" for number in range(agents)]


def control_text(owner: int, number: int) -> str:
    """Return what an owner says with a control; no other one says it."""
    return f"<control {owner} {number}>"


class _Endless(Script):
    """Works until nobody has anything to say any more, and is done then."""

    def __init__(self, label: str, finish: Path, takes_s: float) -> None:
        super().__init__()
        self._label = label
        self._finish = finish
        self._takes_s = takes_s

    async def next(self) -> Turn:
        await trio.lowlevel.checkpoint()
        if await trio.Path(self._finish).exists():
            return Turn(f"result of {self._label}", takes_s=self._takes_s)
        return Turn("on it", (Call("bash"),), takes_s=self._takes_s)


class _Runtime(PlayedRuntime):
    def __init__(self, folder: Path, nursery: trio.Nursery, count: int) -> None:
        super().__init__(folder / "sessions", nursery)
        self._finish = folder / "finish"
        self._takes_s = count * TURN_S

    def script(self, label: str) -> Script:
        if label not in self._scripts:
            self._scripts[label] = _Endless(label, self._finish, self._takes_s)
        return self._scripts[label]


@dataclass(frozen=True)
class _LoggedOwner:
    """An owner that is always idle, and whose conversation is a file."""

    session: SessionId
    log: SessionLog
    is_idle: bool = True

    async def wait_changed(self) -> None:
        await trio.sleep_forever()

    async def entries(self) -> Sequence[Entry]:
        return await trio.to_thread.run_sync(self.log.entries)

    async def append(self, kind: str, details: Mapping[str, Any]) -> None:
        added = {"customType": kind, "data": dict(details)}
        await trio.to_thread.run_sync(self.log.add, "custom", added)

    async def tell(self, key: str, message: Message, *, only_if_idle: bool) -> bool:
        if not any(entry.details.get("delivery") == key for entry in await self.entries()):
            added = {
                "customType": message.kind,
                "content": message.text,
                "details": message.details,
            }
            await trio.to_thread.run_sync(self.log.add, "custom_message", added)
        return True


class _Owner:
    """One owner, with its journal."""

    def __init__(self, storm: "_Storm", number: int) -> None:
        self._storm = storm
        self._number = number
        self._labels = labels_of(number, storm.agents)
        self._log = SessionLog(owner_file(storm.folder, number))
        self._journal = journal_file(storm.folder, number)
        name = session(f"owner {number}")
        if not self._log.path.exists():
            self._log.begin(name, str(storm.folder))
            self._journal.touch()
        self.controller = storm.controller(name, _LoggedOwner(name, self._log))

    async def results(self) -> set[str]:
        """Return the labels of the agents whose results it has."""
        entries = await self.controller.owner.entries()
        return {entry.details["agentLabel"] for entry in entries if entry.kind == RESULT}

    async def start(self) -> None:
        """Have all agents at work that are not done."""
        for label in self._labels:
            states = {state.of.label: state for state in await self._storm.states()}
            found = states.get(Label(label))
            if label in await self.results() or (found and (found.active or found.completed)):
                continue
            if found is not None:
                # Somebody died between its start and its task.
                await self._insist(partial(close, self.controller, agent=label))
            asked = partial(delegate, self.controller, definition="scout", task="Look.", files=())
            await self._insist(partial(asked, label=label))

    async def send(self) -> None:
        """Send what is still to be sent, none of it twice."""
        lines = self._journal.read_text().splitlines()
        begun = sum(line.startswith("try ") for line in lines)
        for number in range(begun, self._storm.controls):
            is_interrupt = number % EVERY == 0
            self._note(f"try {number} {'interrupt' if is_interrupt else 'steer'}")
            label = self._storm.random.choice(self._labels)
            call = interrupt if is_interrupt else steer
            text = control_text(self._number, number)
            try:
                await self._insist(
                    partial(call, self.controller, agent=label, message=text, files=())
                )
            except HerdError as error:
                if error.trouble.details.get("delivery") != "unconfirmed":
                    raise
                self._note(f"unsure {number}")
            else:
                self._note(f"sent {number}")
            self._storm.sent()

    async def wait_results(self) -> None:
        """Return once it has the result of each agent, and nothing is left of them."""
        while await self.results() != set(self._labels) or any(  # noqa: ASYNC110 - others' files
            state.of.owner == self.controller.caller.session for state in await self._storm.states()
        ):
            await trio.sleep(PAUSE_S)

    async def _insist(self, call: Callable[[], Awaitable[object]]) -> None:
        """Call until it is not refused because somebody is busy."""
        while True:
            try:
                await call()
            except HerdError as error:
                if error.trouble.category is not Category.AGENT_BUSY:
                    raise
                await trio.sleep(PAUSE_S)
            else:
                return

    def _note(self, line: str) -> None:
        with self._journal.open("a") as file:
            file.write(f"{line}\n")


@dataclass
class _Doom:
    """Where the process dies, once so many controls were sent."""

    plan: str
    sent: int

    def come_nearer(self) -> None:
        """Count a control."""
        self.sent -= 1
        if self.sent == 0:
            faults.install(self.plan)


class _Storm:
    """All owners and agents of this process."""

    def __init__(
        self, folder: Path, sizes: tuple[int, int, int], runtime: _Runtime, doom: "_Doom"
    ) -> None:
        owners, self.agents, self.controls = sizes
        self.folder = folder
        self._doom = doom
        self.random = random.Random(folder.name)  # noqa: S311 - not for secrets
        self._runtime = runtime
        self._premises = Premises(folder / "data", SystemClock(), "a storm")
        self.owners = [_Owner(self, number) for number in range(owners)]

    def controller(self, name: SessionId, owner: _LoggedOwner) -> Controller:
        caller = Caller(
            name,
            str(self.folder),
            str(self.folder),
            is_lead=True,
            model=MODEL,
        )
        return Controller(
            self._premises,
            self._runtime,
            owner,
            caller,
            self._roster,
            self._attendant,
            agent_dir=self.folder / "agent",
            home=self.folder,
        )

    def sent(self) -> None:
        """Note that a control was sent."""
        self._doom.come_nearer()

    async def states(self) -> list[State]:
        found = await scan(self._premises)
        assert not found.unreadable
        return [one.state for one in found.contents]

    async def run(self) -> None:
        """Go on to the end."""
        for state in await self.states():
            agent = self._runtime.revive(state, self._attendant(birth_of(state)))
            if state.active is not None:
                go_on = Message(GUIDANCE, "Go on.", {"session": state.session})
                await agent.conversation.say(go_on, waits=False)
        async with trio.open_nursery() as nursery:
            for owner in self.owners:
                nursery.start_soon(keep, owner.controller)
            await self._all(_Owner.start)
            await self._all(_Owner.send)
            await trio.Path(self.folder / "finish").touch()
            await self._all(_Owner.wait_results)
            nursery.cancel_scope.cancel()

    async def _all(self, step: Callable[[_Owner], Awaitable[None]]) -> None:
        async with trio.open_nursery() as nursery:
            for owner in self.owners:
                nursery.start_soon(step, owner)

    async def _roster(self) -> Roster:
        layers = [Layer(Source.USER, self.folder / "agent" / "agents")]
        return await trio.to_thread.run_sync(load_roster, layers)

    def _attendant(self, birth: Birth) -> Attendant:
        async def config() -> Any:
            return await read_config(self._premises)

        return Member(self._premises, birth, config=config, undelivered=_nothing)


async def _nothing(_: SessionId) -> Undelivered:
    await trio.lowlevel.checkpoint()
    return Undelivered()


@asynccontextmanager
async def _open_runtime(folder: Path, count: int) -> AsyncIterator[_Runtime]:
    async with trio.open_nursery() as nursery:
        runtime = _Runtime(folder, nursery, count)
        lives = folder / "lives"
        lives.mkdir(exist_ok=True)
        number = next(n for n in itertools.count(1) if not (lives / str(n)).exists())
        (lives / str(number)).touch()
        runtime.handle_prefix = f"life-{number}-"
        yield runtime
        nursery.cancel_scope.cancel()


async def _main(folder: Path, sizes: tuple[int, int, int], doom: _Doom) -> None:
    definitions = folder / "agent" / "agents"
    for one in (definitions, folder / "owners"):
        one.mkdir(parents=True, exist_ok=True)
    (definitions / "scout.md").write_text("---\ndescription: scouts\n---\nYou scout.\n")
    owners, agents, _ = sizes
    async with _open_runtime(folder, owners * agents) as runtime:
        await _Storm(folder, sizes, runtime, doom).run()


if __name__ == "__main__":
    _folder, _owners, _agents, _controls, _plan, *_sent = sys.argv[1:]
    _doom = _Doom(_plan, int(_sent[0]) if _sent else 0)
    if _doom.sent == 0:
        faults.install(_plan)
    trio.run(_main, Path(_folder), (int(_owners), int(_agents), int(_controls)), _doom)
