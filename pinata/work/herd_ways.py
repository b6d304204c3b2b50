"""How a managed agent can be run: what runs it, which model it has, and where its tools work."""

import logging
import os
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

import trio

from agents.filetools.tool import ToolContext
from agents.herdsman.birth import SavedSession
from agents.herdsman.errors import broken, busy, invalid
from agents.herdsman.identity import SessionId
from agents.herdsman.in_process import InProcessSpec, open_in_process
from agents.herdsman.loadout import offered_tools
from agents.herdsman.pi_agent import PiManagedSpec, open_pi
from agents.herdsman.runtime import Launch
from agents.herdsman.session_file import begin_managed_session, discard_session, new_session_path
from agents.models.pi_files import key_files
from agents.models.port import Model
from agents.models.routes import open_routes
from agents.pi_program import PiMissingError
from engine.core.environment import child_environment
from engine.core.errors import ExternalError, PinataError, UsageError, reason_of
from engine.core.ids import AttemptId, TaskId
from engine.core.spec import Backend, ModelChoice
from engine.system.holder import read_live_holder
from pinata.work.context import Context
from pinata.work.herd_choice import no_model, wanted_backends, wanted_model, where_to_state
from pinata.work.herd_runtime import FindWay, LedConversation, Way
from pinata.work.lent_models import LentModels
from pinata.work.models import ModelSources, Opener
from pinata.work.session import Session
from pinata.work.user_pi import PiWay, UserPi
from worktrees.discovery import discover
from worktrees.files import list_files

T = TypeVar("T")

# Outside of a repository nothing says which files matter; more than these are no project.
_MOST_FILES: Final = 50_000
_log = logging.getLogger(f"pinata.{__name__}")


@dataclass(frozen=True, slots=True)
class InProcessWay:
    """An agent that this process runs; a `Way`."""

    launch: Launch
    choice: ModelChoice
    model: Model
    context: Context
    place: ToolContext
    backend: Backend = Backend.IN_PROCESS

    @asynccontextmanager
    async def open(self, mark: str) -> AsyncIterator[LedConversation]:
        """See `Way`."""
        launch, session = self.launch, await _session(self.launch, self.context)
        spec = InProcessSpec(
            session=session.session,
            session_file=session.file,
            label=launch.birth.label,
            definition=launch.birth.definition,
            persona=launch.persona,
            choice=self.choice,
            model=self.model,
            traffic=self.context.traffic,
            context=replace(self.place, mark=f"{mark}/agent"),
            clock=self.context.clock,
        )
        async with AsyncExitStack() as stack:
            yield await come_up(stack, open_in_process(spec, launch.attendant), launch, session)


@dataclass(frozen=True, slots=True)
class ProcessWay:
    """An agent that is a Pi of its own; a `Way`."""

    spec: Callable[[SavedSession, str], PiManagedSpec]
    launch: Launch
    context: Context
    backend: Backend = Backend.PROCESS

    @asynccontextmanager
    async def open(self, mark: str) -> AsyncIterator[LedConversation]:
        """See `Way`."""
        launch, session = self.launch, await _session(self.launch, self.context)
        opening = open_pi(self.spec(session, f"{mark}/agent"), launch.attendant)
        async with AsyncExitStack() as stack:
            yield await come_up(stack, opening, launch, session)


@dataclass(frozen=True, slots=True)
class Ways:
    """Finds ways for the agents of one host.

    Attributes:
        sources: makes what models come from; anew each time, since sessions come and go.
    """

    context: Context
    sources: Callable[[Path], ModelSources]

    async def __call__(self, launch: Launch) -> Way:
        """See `FindWay`."""
        await self._refuse_open(launch.birth.session)
        where = where_to_state(launch.birth.definition, self.context.agent_dir)
        choice = wanted_model(launch, where)
        sources = self.sources(Path(launch.birth.cwd))
        tried: dict[str, list[str]] = {}
        for backend in wanted_backends(launch.birth.definition, where):
            try:
                found = await sources.find(choice, backend)
            except (PiMissingError, UsageError) as error:
                found = str(error)
            except PinataError as error:
                label = launch.birth.label
                raise invalid(f"the model of {label} cannot be found: {error}") from error
            if isinstance(found, str):
                tried.setdefault(found, []).append(backend.value)
                continue
            way, _ = found
            if isinstance(way, PiWay):
                return self._process(launch, choice, way)
            return await self._in_process(launch, choice, way)
        raise no_model(launch, choice, tried, where)

    async def _refuse_open(self, saved: SavedSession | None) -> None:
        """Refuse to continue a session that a person has open as its own.

        Of two that write one session, each goes on from its own end and hides what the other says.

        Raises:
            HerdError: AGENT_BUSY: it is open; INTERNAL_FAILURE: that cannot be told.
        """
        if saved is None:
            return
        lock = Session.of(saved.session, self.context.environment).lock
        try:
            holder = await trio.to_thread.run_sync(read_live_holder, lock)
        except OSError as error:
            raise broken(f"cannot tell whether the session is open: {reason_of(error)}") from error
        if holder is not None:
            raise busy(
                f"the session {saved.session} is open in a Pi of its own, whose host is {holder}",
                next_action="quit that Pi and try again, or delegate to a fresh agent",
            )

    async def _in_process(self, launch: Launch, choice: ModelChoice, opener: Opener) -> Way:
        own = [tool.declaration.name for tool in launch.attendant.tools]
        offered_tools(launch.birth.definition, own)
        model = opener(AttemptId(TaskId(launch.birth.label), 1), {})
        return InProcessWay(launch, choice, model, self.context, await self._place(launch))

    def _process(self, launch: Launch, choice: ModelChoice, way: PiWay) -> Way:
        keys = key_files(self.context.agent_dir)

        def spec(session: SavedSession, mark: str) -> PiManagedSpec:
            return PiManagedSpec(
                pi=way.program,
                definition=launch.birth.definition,
                persona=launch.persona,
                choice=choice,
                session=session.session,
                session_file=session.file,
                cwd=Path(launch.birth.cwd),
                env=way.environment,
                mark=mark,
                secrets=way.route.secrets,
                secret_files=keys,
            )

        # Nothing is made of it before it is known to be meant.
        birth = launch.birth
        unmade = SavedSession(
            birth.owner, Path(birth.cwd), birth.cwd, birth.definition.name, birth.label
        )
        spec(unmade, "").check(launch.attendant.tools)
        return ProcessWay(spec, launch, self.context)

    async def _place(self, launch: Launch) -> ToolContext:
        """Return where an agent's tools work, but for its mark."""
        root = Path(launch.birth.cwd)
        return ToolContext(
            root=root,
            env=child_environment(self.context.environment),
            mark=None,
            list_files=await self._lister(root),
            shell=self.context.shell,
            secrets=key_files(self.context.agent_dir),
        )

    async def _lister(self, root: Path) -> Callable[[], Awaitable[tuple[bytes, ...]]]:
        try:
            repository = await discover(root, self.context.environment)
        except PinataError:
            return lambda: trio.to_thread.run_sync(_walk, root)
        return lambda: list_files(replace(repository, root=root))


@asynccontextmanager
async def open_ways(context: Context) -> AsyncIterator[FindWay]:
    """Have ways to run agents inside the block, for as long as any of them runs."""
    async with open_routes(context.environment, context.clock) as routes:

        def sources(base: Path) -> ModelSources:
            pi = UserPi.of(context, ())
            return ModelSources(routes, base, pi, LentModels.of(context, survives=False))

        yield Ways(context, sources)


async def _session(launch: Launch, context: Context) -> SavedSession:
    """Return the session that an agent leads; a new one is made.

    Raises:
        ExternalError: it cannot be made.
    """
    birth = launch.birth
    if birth.session is not None:
        return birth.session
    folder, id_, now_ms = context.agent_dir, SessionId(str(uuid.uuid4())), context.clock.now_ms()
    assert folder is not None
    definition, label = birth.definition.name, birth.label

    def make() -> SavedSession:
        path = new_session_path(folder, birth.cwd, id_, now_ms)
        begin_managed_session(
            path, id_, cwd=birth.cwd, definition=definition, label=label, now_ms=now_ms
        )
        return SavedSession(id_, path, birth.cwd, definition, label)

    return await trio.to_thread.run_sync(make)


async def come_up(
    stack: AsyncExitStack,
    opening: AbstractAsyncContextManager[T],
    launch: Launch,
    session: SavedSession,
) -> T:
    """Return an agent's conversation, open for as long as `stack` is.

    If it cannot be opened, a session that was made for it alone is removed.
    """
    try:
        return await stack.enter_async_context(opening)
    except BaseException:
        if launch.birth.session is None:
            with trio.CancelScope(shield=True):
                await _discard(session.file)
        raise


async def _discard(file: Path) -> None:
    try:
        await trio.to_thread.run_sync(discard_session, file)
    except ExternalError as error:
        # Nobody has said anything in it, so that it does no harm.
        _log.warning("the session of an agent that did not come up is left: %s", error)


def _walk(root: Path) -> tuple[bytes, ...]:
    """Return the files below a folder that is no repository, relative to it; blocks."""
    found: list[bytes] = []
    top = os.fsencode(root)
    for folder, folders, files in os.walk(top):
        folders.sort()
        for name in sorted(files):
            found.append(os.path.relpath(folder + b"/" + name, top))
            if len(found) == _MOST_FILES:
                return tuple(found)
    return tuple(found)
