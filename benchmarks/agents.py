"""What an agent in this process costs before its model says anything."""

import gc
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from math import inf
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import trio

from agents.backends.attempt import AttemptSpec
from agents.backends.in_process import InProcessAgent
from agents.brief import BriefSpec, Workspace, WorkspaceKind, render_brief
from agents.budget import Budget
from agents.filetools.tool import ToolContext
from agents.loop import AgentMeans
from agents.models.port import AnswerPiece, Message, TextPiece, ToolDeclaration
from agents.roster import load_roster
from agents.session import SessionHeader, open_session
from agents.steering import Steers
from agents.submission import SubmissionRules
from agents.traffic import Traffic
from benchmarks.figure import Figure
from engine.core.ids import AttemptId, TaskId
from engine.core.limiter import Limiter
from engine.core.spec import Kind, ModelChoice, TaskSpec, Thinking
from engine.system.clock import SystemClock

_MOST = 64
_ROUNDS = 9


@dataclass
class _SilentModel:
    """Never answers, and notes when it was asked."""

    asked_at: int = 0
    asked: trio.Event = field(default_factory=trio.Event)
    provider: str = "bench"
    id: str = "silent"
    context_tokens: int | None = 200_000

    @asynccontextmanager
    async def stream(
        self, system: str, messages: Sequence[Message], tools: Sequence[ToolDeclaration]
    ) -> AsyncIterator[AsyncIterator[AnswerPiece]]:
        self.asked_at = time.perf_counter_ns()
        self.asked.set()
        yield _never()


async def _never() -> AsyncIterator[AnswerPiece]:
    while True:
        await trio.sleep(inf)
        yield TextPiece("")


class _Bench:
    """Starts agents in a folder, over a provider that bears as many as there are."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._numbers = count()
        self._definition = load_roster().definitions["scout"]
        limiter = Limiter(_MOST)
        for _ in range(10 * _MOST):
            limiter.answered(_SilentModel.provider)
        self._traffic = Traffic(limiter, lambda: 0.0)

    async def lead(self, model: _SilentModel) -> None:
        """Lead one agent with everything that it has in a run."""
        number = next(self._numbers)
        task = TaskSpec(TaskId(f"t{number}"), "scout", Kind.READER, "look around")
        brief = render_brief(
            BriefSpec(task, Workspace(WorkspaceKind.LIVE_CHECKOUT, str(self._scratch)))
        )
        header = SessionHeader(
            f"s{number}", str(self._scratch), ModelChoice("bench", "silent", Thinking.OFF)
        )
        ids = (f"{entry:08x}" for entry in count())
        path = self._scratch / f"{number}.jsonl"
        async with open_session(
            path, header, clock=SystemClock(), next_id=partial(next, ids)
        ) as session:
            spec = AttemptSpec(
                AttemptId(task.id, 1),
                self._definition,
                SubmissionRules(Kind.READER),
                ToolContext(self._scratch, {}, None, _no_files, "sh"),
                codemode=True,
            )
            budget = Budget(max_turns=60, max_tool_calls=400)
            note = _forget
            means = AgentMeans(model, self._traffic, session, budget, Steers(), note)
            await InProcessAgent(spec, means).run(brief)

    @asynccontextmanager
    async def running(self, count_: int) -> AsyncIterator[float]:
        """Start agents at once; give the median of their milliseconds to the first request."""
        models = [_SilentModel() for _ in range(count_)]
        async with trio.open_nursery() as nursery:
            began = time.perf_counter_ns()
            for model in models:
                nursery.start_soon(self.lead, model)
            for model in models:
                await model.asked.wait()
            yield median((model.asked_at - began) / 1e6 for model in models)
            nursery.cancel_scope.cancel()


async def figures() -> list[Figure]:
    with TemporaryDirectory() as scratch:
        bench = _Bench(Path(scratch))
        async with bench.running(1):
            pass  # whatever is loaded or built once
        grown = await _growth_mb(bench)
        found = [
            Figure(f"agent start to first request, {count_} at once", ms, "ms", limit)
            for count_, limit in ((1, 5), (8, 10), (_MOST, 60))
            for ms in [await _start_ms(bench, count_)]
        ]
    return [*found, Figure(f"memory of a running agent, {_MOST} at once", grown, "MB", 1)]


async def _start_ms(bench: _Bench, count_: int) -> float:
    taken = []
    for _ in range(_ROUNDS):
        async with bench.running(count_) as ms:
            taken.append(ms)
    return median(taken)


async def _growth_mb(bench: _Bench) -> float:
    """Return by how much the process grows for each agent, when so many run for the first time."""
    gc.collect()
    before = _resident_mb()
    async with bench.running(_MOST):
        return (_resident_mb() - before) / _MOST


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 1e6


async def _no_files() -> tuple[bytes, ...]:
    await trio.lowlevel.checkpoint()
    return ()


def _forget(_: object) -> None:
    """Nobody follows."""
