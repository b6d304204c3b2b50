"""Has a host look after the runs of its session: when it starts, and again when one broke off."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import trio

from engine.core.errors import PinataError
from engine.core.ids import RunId

# Between two tries: a client may call many times a second, and what broke a run off may last.
LEAST_PAUSE_S: Final = 10.0
_FAULT: Final = "runs of this session could not be looked after by a fault of pinata"
_log = logging.getLogger(f"pinata.{__name__}")

ComeHome = Callable[[], Awaitable[Sequence[str]]]


class Home:
    """What was found of the session's runs that nobody owned, and whether to look again.

    A look happens for a reason, never at a time: a client attaches or calls.
    """

    def __init__(
        self,
        come_home: ComeHome,
        broken_off: Callable[[], Mapping[RunId, str]],
        told: Callable[[], None],
    ) -> None:
        """Begin with a first look due.

        Args:
            come_home: looks after runs that nobody owns; returns what to tell of them.
            broken_off: tells which runs broke off in this process and do not go on, and why.
            told: called whenever there may be more to tell, or less to wait for.
        """
        self._come_home = come_home
        self._broken_off = broken_off
        self._told = told
        self._found: Sequence[str] = ()
        self._is_due = trio.Event()
        self._is_due.set()
        self._is_home = trio.Event()
        self._not_before_s = 0.0
        self._tried: frozenset[RunId] = frozenset()

    @property
    def is_home(self) -> bool:
        """Whether no look is under way or due."""
        return self._is_home.is_set()

    @property
    def notices(self) -> Sequence[str]:
        """What a client should know."""
        broken = (
            f"run {run} broke off here: {why}; unless it has settled since, it is taken up again "
            "when this session calls for something, or comes back, and its end will be told"
            for run, why in sorted(self._broken_off().items())
        )
        return *self._found, *broken

    async def wait(self) -> None:
        """Return once no look is under way or due."""
        while not self.is_home:
            await self._is_home.wait()
        await trio.lowlevel.checkpoint()

    def look_again(self) -> None:
        """Look soon if there is a run that may need it; called when somebody asks for something."""
        broken = self._broken_off().keys()
        is_time = trio.current_time() >= self._not_before_s or bool(broken - self._tried)
        if self.is_home and is_time and (self._found or broken):
            self._is_home = trio.Event()
            self._is_due.set()

    async def run(self) -> None:
        """Look whenever that is due; never returns."""
        while True:
            await self._is_due.wait()
            self._is_due = trio.Event()
            self._tried = frozenset(self._broken_off())
            try:
                self._found = await self._come_home()
            except PinataError as error:
                _log.warning("the runs of the session could not be looked after: %s", error)
                self._found = (f"runs of this session could not be looked after: {error}",)
            except Exception:  # noqa: BLE001 - the runs of this process go on
                _log.exception("the runs of the session could not be looked after")
                self._found = (_FAULT,)
            finally:
                self._not_before_s = trio.current_time() + LEAST_PAUSE_S
                self._is_home.set()
            for notice in self._found:
                _log.info("%s", notice)
            self._told()
