"""A view of a run on a terminal: what happens there, and what a person does, until one leaves."""

import math
import signal
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import trio

from engine.core.errors import PinataError
from engine.core.events import Trace
from engine.core.ids import AttemptId, TaskId
from engine.core.view import TaskView
from engine.records.event import Logged
from engine.system.clock import Clock
from pinata import app
from pinata.faces.view_keys import Key, Named, Typed
from pinata.faces.view_paint import paint
from pinata.faces.view_screen import Scene, Talk, first_state, picture
from pinata.faces.view_state import (
    Act,
    Cancel,
    Ending,
    Sight,
    Steer,
    ViewState,
    press,
    returned,
)
from pinata.faces.view_talk import Writing
from pinata.faces.view_terminal import LEAVING, Terminal
from pinata.faces.watched import Watched
from pinata.work.observer import OpenedRun
from pinata.work.viewed import Source, StoredSource

# Often enough for clocks that show seconds; what happens is drawn sooner.
_REDRAW_S = 1.0
# Between two pictures of what happens; a key does not wait for it.
_PAUSE_S = 0.1
# Between two questions for a conversation, which may be long.
_ASK_AGAIN_S = 0.25
_UNANSWERED = "the way to the run was lost, and whether this has arrived is not known"


@dataclass(frozen=True, slots=True)
class Wish:
    """What a person wants to see of a run.

    Attributes:
        stored: the run as it lies on disk.
        task: whose conversation is shown first; None shows the table.
        keeps: the view stays when nothing more happens, until the person leaves.
        environment: the caller's.
    """

    stored: StoredSource
    task: TaskId | None
    keeps: bool
    environment: Mapping[str, str]
    clock: Clock


class Visit:
    """One look at a run by a person at a terminal; an observer of the run that is seen."""

    def __init__(self, wish: Wish, terminal: Terminal) -> None:
        """Begin with an empty screen."""
        self._wish = wish
        self._source: Source = wish.stored
        self._terminal = terminal
        self._watched = Watched()
        self._writing = Writing()
        self._growth = trio.Event()
        self._state: ViewState | None = None
        self._sight: Sight | None = None
        self._ending: Ending | None = None
        self._has_left = False
        # Until when clocks run: they stand still in a run in which nothing happens.
        self._stopped_at_ms: int | None = None
        self._notice = ""
        self._asked: tuple[AttemptId, int] | None = None
        self._talk: tuple[AttemptId, Talk] | None = None
        self._pressed = trio.Event()
        # How many requests of the person have no answer yet.
        self._unanswered = 0

    def run_opened(self, run: OpenedRun) -> None:
        """Show the run as it stands, the first time or anew."""
        self._watched.run_opened(run)
        self._writing.forget()
        if self._state is None:
            self._state = first_state(run, self._wish.task)
        self._growth.set()

    def happened(self, logged: Logged) -> None:
        """Show an event."""
        self._watched.happened(logged)
        self._writing.happened(logged)
        self._growth.set()

    def noted(self, event: Trace) -> None:
        """Show what an agent does."""
        self._watched.noted(event)
        self._writing.noted(event)
        self._growth.set()

    @property
    def scene(self) -> Scene | None:
        """What there is to show; None before the run was opened."""
        run, state = self._watched.run, self._state
        if run is None or state is None:
            return None
        now_ms = self._stopped_at_ms or self._wish.clock.now_ms()
        view = self._watched.view.copy()
        return Scene(run, view, now_ms, self._notice, self._talk_of(state.task))

    async def show(self, source: Source) -> Ending:
        """Show the run until its person leaves, or nothing more happens; return why it is over.

        A run that was lost can be shown once more, from another source.

        Args:
            source: tells of the run and takes requests.
        """
        self._begin(source)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._heed_signals)
            nursery.start_soon(self._watch)
            nursery.start_soon(self._read_keys, nursery)
            nursery.start_soon(self._read_talk)
            await self._draw_until_over()
            nursery.cancel_scope.cancel()
        return self._ending or Ending.LEFT

    def _begin(self, source: Source) -> None:
        self._ending = self._stopped_at_ms = None
        self._notice = ""
        if isinstance(source, StoredSource):
            self._stopped_at_ms, self._notice = source.last_at_ms, source.reason
        self._turn_to(source)

    @property
    def _is_over(self) -> bool:
        is_busy = self._unanswered > 0 or (self._state is not None and self._state.is_busy)
        stays = self._wish.keeps or is_busy
        is_lost, has_ended = self._ending is Ending.LOST, self._ending is Ending.ENDED
        return self._has_left or is_lost or (has_ended and not stays)

    def _leave(self) -> None:
        self._has_left = True
        self._wake()

    def _wake(self) -> None:
        self._pressed.set()
        self._growth.set()
        self._watched.wake()

    async def _draw_until_over(self) -> None:
        while not self._is_over:
            moves = self._watched.run is not None and self._stopped_at_ms is None
            with trio.move_on_after(_REDRAW_S if moves else math.inf):
                await self._watched.wait_news()
            self._pressed = trio.Event()
            await self._draw()
            with trio.move_on_after(_PAUSE_S):
                await self._pressed.wait()

    async def _draw(self) -> None:
        scene, state, size = self.scene, self._state, self._terminal.size
        if scene is None or state is None:
            return
        shown = await trio.to_thread.run_sync(
            partial(picture, scene, state, size), abandon_on_cancel=True
        )
        self._sight = shown.sight
        lines = await trio.to_thread.run_sync(partial(paint, shown, size), abandon_on_cancel=True)
        if not await self._terminal.draw(lines):
            self._leave()

    async def _watch(self) -> None:
        """Hear of the run until nothing more can be heard of it from here."""
        stored = self._wish.stored
        while True:
            try:
                await self._source.watch(self)
            except PinataError:
                self._ending = Ending.LOST
                self._wake()
                return
            self._ending = Ending.ENDED
            if self._stopped_at_ms is None:
                self._stopped_at_ms = self._wish.clock.now_ms()
            self._wake()
            try:
                await self._source.wait_reopened()
            except PinataError:
                if not isinstance(self._source, StoredSource):
                    self._turn_to(stored.because(f"run {stored.folder.run} has settled"))
                return
            self._ending = self._stopped_at_ms = None

    def _turn_to(self, source: Source) -> None:
        # What the one before could not tell may be had from this one.
        self._source, self._asked = source, None
        self._wake()

    async def _heed_signals(self) -> None:
        async for number in self._terminal.signals:
            if number in LEAVING:
                self._leave()
            elif number == signal.SIGTSTP:
                await self._terminal.stop()
            elif number == signal.SIGCONT:
                await self._terminal.enter()
            self._wake()

    async def _read_keys(self, nursery: trio.Nursery) -> None:
        while (keys := await self._terminal.next_keys()) is not None:
            for key in keys:
                self._press(key, nursery)
            if keys:
                self._wake()
        self._leave()

    def _press(self, key: Key, nursery: trio.Nursery) -> None:
        if self._state is None or self._sight is None:
            # Nothing is to be seen yet, which one may get tired of.
            if key in (Named.INTERRUPT, Named.ESCAPE, Typed("q")):
                self._leave()
            return
        self._state, effect = press(self._state, key, self._sight)
        match effect:
            case Act.LEAVE:
                self._leave()
            case Act.REDRAW:
                nursery.start_soon(self._terminal.enter)
            case Steer() | Cancel():
                self._unanswered += 1
                nursery.start_soon(self._request, effect)
            case None:
                pass

    async def _request(self, effect: Steer | Cancel) -> None:
        """Carry a request out and say what became of it; no error of it ends the view."""
        said = trouble = ""
        try:
            app.refuse_agents(self._wish.environment)
            match effect:
                case Steer(message):
                    await self._source.steer(
                        message.task, message.text, follow_up=message.follow_up
                    )
                    said = f"{message.task}: the message waits for its agent"
                case Cancel(task):
                    has_ended = await self._source.cancel(task)
                    said = f"{task or 'the run'}: {'has ended' if has_ended else 'being cancelled'}"
        except PinataError as error:
            trouble = str(error)
        except trio.Cancelled:
            # The run was lost, and may be shown once more from another source.
            trouble = _UNANSWERED
            raise
        finally:
            self._unanswered -= 1
            self._answered(effect, said, trouble)

    def _answered(self, effect: Steer | Cancel, said: str, trouble: str) -> None:
        assert self._state is not None
        if trouble and isinstance(effect, Steer):
            self._state = returned(self._state, effect.message, trouble)
        else:
            self._state = replace(self._state, said=trouble or said)
        self._wake()

    def _talk_of(self, task: TaskId) -> Talk:
        """Return what is known of a task's conversation, as one reads it."""
        attempt = self._attempt(task)
        if self._talk is None or self._talk[0] != attempt:
            return Talk() if attempt.number else Talk(trouble="no agent has started yet")
        talk = self._talk[1]
        if self._state is not None and self._state.lines_back:
            return talk
        read = self._asked[1] if self._asked is not None and self._asked[0] == attempt else 0
        return replace(talk, writing=self._writing.text(attempt, read))

    def _attempt(self, task: TaskId) -> AttemptId:
        seen = self._watched.view.tasks.get(task, TaskView(task))
        # A task that is queued anew has what its last attempt said.
        return AttemptId(task, seen.attempt)

    async def _read_talk(self) -> None:
        """Keep the conversation that is read up to date, while one is."""
        while True:
            self._growth = trio.Event()
            wanted = self._wanted()
            if wanted is None or wanted == self._asked:
                await self._growth.wait()
                continue
            attempt, _ = wanted
            try:
                talk = Talk(await self._source.messages(attempt.task, attempt.number))
            except PinataError as error:
                talk = Talk(trouble=str(error))
            self._asked, self._talk = wanted, (attempt, talk)
            self._watched.wake()
            await trio.sleep(_ASK_AGAIN_S)

    def _wanted(self) -> tuple[AttemptId, int] | None:
        """Return the conversation that should be known, and how long it is by now.

        Whoever has scrolled back keeps what is read, or it would move away under their eyes.
        """
        state = self._state
        if state is None or not state.is_reading:
            return None
        attempt = self._attempt(state.task)
        is_known = self._talk is not None and self._talk[0] == attempt
        if attempt.number == 0 or (state.lines_back and is_known):
            return None
        return attempt, self._writing.length(attempt)
