"""What an agent that is a Pi of its own costs over the bare program, until its model is asked."""

import json
import time
from collections.abc import Awaitable, Callable
from itertools import count
from os import environ
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from uuid import uuid4

import trio

from agents.backends.attempt import AttemptSpec
from agents.backends.pi_conversation import PiMeans
from agents.backends.pi_process import PiAgent, PiAgentSpec
from agents.budget import Budget
from agents.filetools.tool import ToolContext
from agents.models.routes import PiRoute, unknown_price
from agents.pi_program import PiProgram, find_pi
from agents.roster import load_roster
from agents.session import begin_session
from agents.steering import Steers
from agents.submission import SubmissionRules
from agents.traffic import Traffic
from benchmarks.figure import Figure
from engine.core.environment import child_environment
from engine.core.ids import AttemptId, TaskId
from engine.core.limiter import Limiter
from engine.core.spec import Kind, ModelChoice, Thinking
from engine.system.clock import SystemClock
from engine.system.duplex import open_duplex
from engine.system.family import become_subreaper
from engine.system.process import ProcessSpec
from tests.support.agents import no_files
from tests.support.model_server import After, ModelRequest, Spoken, open_model_server
from tests.support.pi_agents import PROVIDER, write_models
from tests.support.real_pi import with_pi

_ROUNDS = 20
_BARE = "--mode rpc --offline --no-extensions --no-skills --no-prompt-templates --no-themes"
_BRIEF = "Begin."


class _Bench:
    """Starts one and the other in a folder, over a model that notes when it is asked."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._numbers = count()
        self._definition = load_roster().definitions["scout"]
        self._route = PiRoute(unknown_price, has_price=False)
        self._traffic = Traffic(Limiter(), lambda: 0.0)
        self._asked_at = 0
        self._asked = trio.Event()
        base = {name: environ[name] for name in ("PATH", "HOME") if name in environ}
        self.env = child_environment(with_pi(base, scratch / "agent"))

    def answer(self, _: ModelRequest) -> Spoken:
        """Note that the model is asked, and say nothing."""
        self._asked_at = time.perf_counter_ns()
        self._asked.set()
        return Spoken((), After.HANG)

    async def until_asked_ms(self, start: Callable[[], Awaitable[object]]) -> float:
        """Return how long it takes from the start until the model is asked; then end it."""
        self._asked = trio.Event()
        began = time.perf_counter_ns()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(start)
            await self._asked.wait()
            nursery.cancel_scope.cancel()
        return (self._asked_at - began) / 1e6

    async def agent(self, pi: PiProgram) -> None:
        """Lead an agent with everything that it has in a run."""
        number = next(self._numbers)
        session = self._scratch / f"{number}.jsonl"
        begin_session(session, str(uuid4()), self._scratch, SystemClock())
        attempt = AttemptSpec(
            AttemptId(TaskId(f"t{number}"), 1),
            self._definition,
            SubmissionRules(Kind.READER),
            ToolContext(self._scratch, self.env, f"benchmark/t{number}.1", no_files, "sh"),
            codemode=True,
        )
        choice = ModelChoice(PROVIDER, "m1", Thinking.OFF)
        budget = Budget(max_turns=9, max_tool_calls=9)
        means = PiMeans(budget, Steers(), lambda _: None, self._route, self._traffic)
        await PiAgent(PiAgentSpec(attempt, pi, choice, session), means).run(_BRIEF)

    async def bare(self, pi: PiProgram) -> None:
        """Start Pi with nothing of the user's, and ask it."""
        argv = (*pi.argv, *_BARE.split(), "--no-context-files", "--no-session")
        model = ("--model", f"{PROVIDER}/m1", "--thinking", "off")
        spec = ProcessSpec((*argv, *model), self._scratch, self.env)
        async with open_duplex(spec, grace_s=3.0) as duplex:
            prompt = {"type": "prompt", "message": _BRIEF}
            await duplex.stream.send_all(json.dumps(prompt).encode() + b"\n")
            while await duplex.stream.receive_some():
                pass


async def figures() -> list[Figure]:
    become_subreaper()
    with TemporaryDirectory() as scratch:
        bench = _Bench(Path(scratch))
        async with open_model_server(bench.answer) as server:
            write_models(Path(scratch) / "agent", server)
            pi = await find_pi(bench.env, Path(scratch))
            steps = (lambda: bench.agent(pi), lambda: bench.bare(pi))
            taken: tuple[list[float], list[float]] = ([], [])
            for step in steps:  # the first start of all fills Node's caches
                await bench.until_asked_ms(step)
            for _ in range(_ROUNDS):
                for step, times in zip(steps, taken, strict=True):
                    times.append(await bench.until_asked_ms(step))
    ours, plain = (median(times) for times in taken)
    return [Figure("an agent that is a Pi, start to first request", ours, "ms", 1.25, plain)]
