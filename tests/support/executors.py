"""An executor that does what a test says, and remembers what it was asked."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

import trio

from engine.core.ids import AttemptId, TaskId
from engine.core.outcome import AttemptOutcome, Status, Stop, Unstarted
from engine.ports import Reporter

Behaviour = Callable[[AttemptId, Reporter], Awaitable[AttemptOutcome]]

SUCCESS = AttemptOutcome(Status.SUCCEEDED, result_digest="saved")


async def succeeds(attempt: AttemptId, reporter: Reporter) -> AttemptOutcome:
    """End well at once."""
    await trio.lowlevel.checkpoint()
    return SUCCESS


async def fails(attempt: AttemptId, reporter: Reporter) -> AttemptOutcome:
    """End badly at once."""
    await trio.lowlevel.checkpoint()
    return AttemptOutcome(Status.FAILED, "the agent gave up", result_digest="saved")


async def hangs(attempt: AttemptId, reporter: Reporter) -> AttemptOutcome:
    """Never end by itself."""
    await trio.sleep_forever()
    raise AssertionError


def takes(duration_s: float, then: Behaviour = succeeds) -> Behaviour:
    """Return a behaviour that works for a while first."""

    async def behave(attempt: AttemptId, reporter: Reporter) -> AttemptOutcome:
        await trio.sleep(duration_s)
        return await then(attempt, reporter)

    return behave


class ScriptedExecutor:
    """Runs each task as its behaviour says; tasks without one succeed at once.

    Attributes:
        calls: `run a@1`, `close a@1 task deadline` and `unstarted a b`, in order.
        running: attempts whose `run` or `close` has not returned.
        most_running: the largest number of them that there ever was.
    """

    def __init__(
        self, behaviours: Mapping[str, Behaviour] | None = None, *, default: Behaviour = succeeds
    ) -> None:
        self._behaviours = behaviours or {}
        self._default = default
        self.calls: list[str] = []
        self.unstarted: list[Unstarted] = []
        self.running: set[AttemptId] = set()
        self.most_running = 0

    async def run(self, attempt: AttemptId, reporter: Reporter) -> AttemptOutcome:
        self.calls.append(f"run {attempt}")
        self.running.add(attempt)
        self.most_running = max(self.most_running, len(self.running))
        try:
            return await self._behaviours.get(attempt.task, self._default)(attempt, reporter)
        finally:
            self.running.discard(attempt)

    async def close(
        self,
        attempt: AttemptId,
        stop: Stop,
        reporter: Reporter,
    ) -> AttemptOutcome:
        await trio.lowlevel.checkpoint()
        self.calls.append(f"close {attempt} {stop.cause.value}")
        return AttemptOutcome(stop.status, stop.reason, result_digest="closed")

    async def settle_unstarted(self, tasks: Sequence[Unstarted]) -> Sequence[str | None]:
        await trio.lowlevel.checkpoint()
        self.calls.append("unstarted " + " ".join(each.task for each in tasks))
        self.unstarted += tasks
        return [f"unstarted {each.task}" for each in tasks]

    def started(self) -> list[TaskId]:
        """Return the tasks that were run, in order, repeated tries included."""
        return [
            TaskId(call.split()[1].split("@")[0]) for call in self.calls if call.startswith("run ")
        ]
