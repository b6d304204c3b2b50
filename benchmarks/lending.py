"""What it costs to ask models through a session's Pi: a real one, its provider on this machine."""

import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from os import environ
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import trio

from agents.models.coordinator import CoordinatedModel, Listing
from agents.models.port import TextPiece, UserMessage
from agents.models.routes import unknown_price
from agents.pi_program import COORDINATOR
from agents.traffic import Traffic
from benchmarks.figure import Figure, medians_ms
from engine.core.limiter import Limiter
from engine.core.spec import Thinking
from pinata.work.host import Setting, Work, open_host
from pinata.work.host_models import HostModels
from pinata.work.session import Session
from tests.support.hosts import Debts, Stage, at_home
from tests.support.model_server import After, ModelRequest, Spoken, open_model_server
from tests.support.pi_agents import PROVIDER, write_models
from tests.support.real_pi import PI, with_pi

_PROJECT = Path(__file__).resolve().parent.parent
_COUNT = 8
_ROUNDS = 15
_WORDS = 50
_STALLS = "stall"


class _Bench:
    """Asks a model at once, as many agents would, and notes when its server hears of it."""

    def __init__(self, models: HostModels) -> None:
        self._models = models
        self._heard_at: list[int] = []

    def answer(self, request: ModelRequest) -> Spoken:
        self._heard_at.append(time.perf_counter_ns())
        words = tuple(TextPiece(f"word {number} ") for number in range(_WORDS))
        after = After.HANG if request.first_text == _STALLS else After.END
        return Spoken(words, after)

    async def first_request_ms(self) -> float:
        """Return the median of how long it takes until the server hears of a request."""
        self._heard_at = []
        began = time.perf_counter_ns()
        async with trio.open_nursery() as nursery:
            for _ in range(_COUNT):
                nursery.start_soon(self._ask)
        return median((at - began) / 1e6 for at in self._heard_at)

    async def beside_another(self) -> None:
        """Hear all but one answer, the last of which is as long as the others."""
        await self._beside("go")

    async def beside_a_stalled_one(self) -> None:
        """Hear all but one answer, which stalls."""
        await self._beside(_STALLS)

    async def _beside(self, brief: str) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._ask, brief)
            async with trio.open_nursery() as others:
                for _ in range(_COUNT - 1):
                    others.start_soon(self._ask)
            nursery.cancel_scope.cancel()

    async def _ask(self, brief: str = "go") -> None:
        listing = Listing(None, has_price=True)
        name = (PROVIDER, "m1")
        model = CoordinatedModel(self._models, name, Thinking.OFF, listing, unknown_price)
        async with model.stream("be brief", [UserMessage(brief)], ()) as pieces:
            async for _ in pieces:
                pass


@asynccontextmanager
async def _attached(scratch: Path) -> AsyncIterator[_Bench]:
    """Have a real Pi attached to a host in this process inside the block."""
    models = HostModels()
    bench = _Bench(models)
    env = with_pi({**environ, "XDG_STATE_HOME": str(scratch / "state")}, scratch / "agent")
    env["PYTHONPATH"] = str(_PROJECT)
    session = Session.of("benchmark", env)
    setting = Setting(env, "benchmark", (), Traffic(Limiter(_COUNT), lambda: 0.0))
    work = Work(Stage(), Debts(), at_home, models)
    async with (
        open_model_server(bench.answer) as server,
        open_host(session, setting, lambda _: work),
    ):
        write_models(scratch / "agent", server)
        flags = ("--mode", "rpc", "--offline", "--no-extensions", "-e", str(COORDINATOR))
        pi = await trio.lowlevel.open_process(
            [str(PI), *flags, "--session-id", session.key, "--model", f"{PROVIDER}/m1"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=scratch,
            env=env,
        )
        try:
            while isinstance(await models.find(PROVIDER, "m1"), str):
                pass
            yield bench
        finally:
            assert pi.stdin is not None
            await pi.stdin.aclose()
            await pi.wait()


async def figures() -> list[Figure]:
    with TemporaryDirectory() as folder:
        async with _attached(Path(folder)) as bench:
            await bench.first_request_ms()  # whatever is loaded or connected once
            first_ms = median([await bench.first_request_ms() for _ in range(_ROUNDS)])
            stalled, plain = await medians_ms(
                bench.beside_a_stalled_one, bench.beside_another, _ROUNDS
            )
    return [
        Figure(f"through a session's Pi, first request of {_COUNT}", first_ms, "ms", 15),
        Figure(f"its {_COUNT - 1} answers beside one that stalls", stalled, "ms", 1.3, plain),
    ]
