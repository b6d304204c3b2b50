"""Tells a session what became of its runs: every settlement once, as far as anybody can know.

What is told is confirmed by whoever heard it, and told again with the same key until then.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

import trio

from engine.core.errors import PinataError
from engine.core.ids import RunId
from engine.core.outcome import Status
from pinata.work.accounts import Accounts
from pinata.work.blocking import in_thread
from pinata.work.context import Context
from pinata.work.delivery_text import damage_text, end_text, overtaken_text
from pinata.work.owed import DAMAGE, Owed, Settlement, UnknownDeliveryError
from pinata.work.owned_run import Answer
from pinata.work.review import missing_approval
from pinata.work.run_answer import summarize
from pinata.work.shown import ShownRun
from worktrees.discovery import discover

_LAST = float("inf")


@dataclass(frozen=True, slots=True)
class Delivery:
    """What a session is told of one settlement of one of its runs.

    Attributes:
        settlement: its number, 1 being the first of the run; 0 where the run's records are damaged.
        status: what the run came to.
        text: for the model that coordinates the run, at most 32 KiB.
        answer: as `pinata_status` gives it, with the first page of tasks; in a few words where the
            run has gone on since then, or cannot be read.
    """

    run: RunId
    settlement: int
    status: Status
    text: str
    answer: Answer

    @property
    def key(self) -> str:
        """Names the delivery, the same whenever it is told again."""
        return delivery_key(self.run, self.settlement)


def delivery_key(run: RunId, settlement: int) -> str:
    """Return what names the delivery of a settlement."""
    return f"{run}/{settlement}"


class Deliveries:
    """What one session is owed; the process that holds the session's lock has the only one."""

    def __init__(self, context: Context) -> None:
        """Begin without having looked.

        Args:
            context: has the session, and the runtime that carries its runs.
        """
        assert context.session is not None
        self._context = context
        self._accounts = Accounts(context.session)
        self._lock = trio.Lock()

    async def pending(self) -> Sequence[Delivery]:
        """Return every settlement of the session's runs that nobody confirmed, the oldest first.

        A run that is under way in this process is left out: it may still add to what is told of it,
        and announces its end. Runs whose records are damaged come last; they hide no others.

        Raises:
            ExternalError: the session's folder cannot be read.
        """
        async with self._lock:
            found: list[tuple[float, Delivery]] = []
            for owed in await self._look():
                found += await self._told(owed)
        found.sort(key=itemgetter(0))
        busy = self._under_way
        return [each for _, each in found if each.run not in busy]

    async def confirm(self, key: str) -> None:
        """Make durable that the session was told; again is no harm.

        Args:
            key: of a delivery.

        Raises:
            UnknownDeliveryError: the session was never owed it.
            ExternalError: it cannot be written; it is told again then.
        """
        run, _, number = key.partition("/")
        if not number.isascii() or not number.isdigit():
            raise UnknownDeliveryError(key)
        async with self._lock:
            await in_thread(
                lambda: self._accounts.confirm(RunId(run), int(number)),
                f"cannot save that delivery {key} was confirmed",
            )

    async def _look(self) -> list[Owed]:
        busy = self._under_way
        return await in_thread(
            lambda: [owed for owed in self._accounts.look(busy) if owed.is_anything],
            "cannot look for what the session is to be told",
        )

    @property
    def _under_way(self) -> frozenset[RunId]:
        runtime = self._context.runtime
        return frozenset() if runtime is None else runtime.runs

    async def _told(self, owed: Owed) -> list[tuple[float, Delivery]]:
        if owed.damage is not None:
            return [(_LAST, _damaged(owed.run, owed.damage))]
        return [(each.at_ms, await self._tell(owed, each)) for each in owed.settlements]

    async def _tell(self, owed: Owed, settlement: Settlement) -> Delivery:
        if owed.is_settled and settlement.number == owed.newest:
            delivery = await self._tell_all(owed, settlement)
            if delivery is not None:
                return delivery
        key = delivery_key(owed.run, settlement.number)
        text = overtaken_text(key, owed.run, settlement, owed.newest)
        answer: Answer = {"run": owed.run, "status": settlement.status.value}
        if settlement.reason is not None:
            answer["reason"] = settlement.reason
        return Delivery(owed.run, settlement.number, settlement.status, text, answer)

    async def _tell_all(self, owed: Owed, settlement: Settlement) -> Delivery | None:
        """Return the delivery of a run's newest settlement; None when it has gone on by now."""
        assert owed.folder is not None
        assert owed.root is not None
        key = delivery_key(owed.run, settlement.number)
        try:
            shown = await trio.to_thread.run_sync(self._context.cache.read, owed.folder)
            if shown.view.settled_at_ms is None or shown.view.settlements != settlement.number:
                return None
            answer = await self._answer(owed, shown)
            missing = await trio.to_thread.run_sync(_missing, shown)
        except (PinataError, OSError) as error:
            # Its log says how it ended all the same.
            says = str(error)
            answer = {"run": owed.run, "status": settlement.status.value, "error": says}
            text = damage_text(key, owed.run, says)
            return Delivery(owed.run, settlement.number, settlement.status, text, answer)
        status = Status(answer["status"])
        text = end_text(key, answer, missing)
        return Delivery(owed.run, settlement.number, status, text, answer)

    async def _answer(self, owed: Owed, shown: ShownRun) -> Answer:
        assert owed.root is not None
        repository = await discover(owed.root, self._context.environment)
        return await summarize(self._context, repository, shown)


def _missing(shown: ShownRun) -> str | None:
    return missing_approval(shown.spec, shown.results)


def _damaged(run: RunId, says: str) -> Delivery:
    text = damage_text(delivery_key(run, DAMAGE), run, says)
    answer: Answer = {"run": run, "error": says}
    return Delivery(run, DAMAGE, Status.UNCERTAIN, text, answer)
