from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from agents.asking import Asker, Question
from agents.budget import Budget
from agents.models.coordinator import GONE, Listing
from agents.models.port import (
    AnswerEnded,
    AnswerFailed,
    AnswerPiece,
    AssistantMessage,
    StopReason,
    TextPiece,
    Usage,
    UserMessage,
)
from agents.traffic import Traffic
from engine.core.ids import AttemptId, TaskId
from engine.core.limiter import Limiter
from engine.core.spec import ModelChoice, Thinking
from pinata.work.host_models import LATE, LEFT, NOBODY, SILENT, HostModels
from tests.support.hosts import Host, played_host
from tests.support.lenders import (
    END,
    MODEL,
    PROVIDER,
    Lender,
    heard,
    lent,
    lent_model,
    text,
)

ENDED = AnswerEnded(StopReason.STOP, Usage(7, 3, 0.5))


@asynccontextmanager
async def lending() -> AsyncIterator[tuple[Host, HostModels, Lender]]:
    """Have a host whose client lends models inside the block."""
    models = HostModels()
    async with played_host(models=models) as host, lent(host) as lender:
        yield host, models, lender


class Agents:
    """Agents that ask at once, and what each of them heard."""

    def __init__(self, nursery: trio.Nursery, models: HostModels) -> None:
        self.heard: dict[str, Sequence[AnswerPiece]] = {}
        self._nursery = nursery
        self._models = models

    def ask(self, *names: str) -> None:
        for name in names:
            self._nursery.start_soon(self._ask, name)

    async def _ask(self, name: str) -> None:
        self.heard[name] = await heard(self._models)


async def test_attached_session_says_which_models_it_lends() -> None:
    async with lending() as (_, models, lender):
        lender.listing = {"contextTokens": 32_000, "hasPrice": True}
        assert await models.find(PROVIDER, MODEL) == Listing(32_000, has_price=True)
        lender.listing = {"fault": "Pi has no login for acme"}
        assert await models.find(PROVIDER, MODEL) == "Pi has no login for acme"


async def test_session_says_with_which_model_it_works_itself() -> None:
    models = HostModels()
    said = []
    uses = {"type": "uses", "provider": PROVIDER, "model": MODEL}
    async with played_host(models=models) as host:
        async with lent(host) as lender:
            said.append(models.preferred)
            for thinking in ("off", "high"):
                await lender.client.send(**uses, thinking=thinking)
                await models.find(PROVIDER, MODEL)
                said.append(models.preferred)
        await wait_all_tasks_blocked()
        said.append(models.preferred)
    assert said == [
        None,
        ModelChoice(PROVIDER, MODEL, Thinking.OFF),
        ModelChoice(PROVIDER, MODEL, Thinking.HIGH),
        None,
    ]


async def test_model_is_not_found_while_nobody_is_attached(autojump_clock: MockClock) -> None:
    assert await HostModels().find(PROVIDER, MODEL) == NOBODY


async def test_client_that_knows_nothing_of_models_is_not_asked() -> None:
    models = HostModels()
    async with played_host(models=models) as host:
        client = await host.attach()
        assert await models.find(PROVIDER, MODEL) == SILENT
        await client.silence()


async def test_client_that_attaches_a_moment_later_is_asked() -> None:
    models = HostModels()
    found = []
    is_found = trio.Event()
    async with played_host(models=models) as host, trio.open_nursery() as nursery:

        async def find() -> None:
            found.append(await models.find(PROVIDER, MODEL))
            is_found.set()

        nursery.start_soon(find)
        await wait_all_tasks_blocked()
        async with lent(host):
            await is_found.wait()
    assert found == [Listing(None, has_price=True)]


async def test_run_that_comes_home_asks_for_models_before_its_client_is_welcome() -> None:
    models = HostModels()
    found: list[Any] = []

    async def come_home() -> Sequence[str]:
        found.append(await models.find(PROVIDER, MODEL))
        return ("it goes on",)

    async with played_host(models=models, come_home=come_home) as host:
        client = host.connect()
        hello = {"v": 1, "token": "t" * 43, "role": "session", "session": "session-1"}
        await client.send(type="hello", lendsModels=True, **hello)
        asked = await client.expect("find_model")
        await client.send(type="model", request=asked["request"], hasPrice=True)
        assert (await client.expect("welcome"))["notices"] == ["it goes on"]
    assert found == [Listing(None, has_price=True)]


async def test_client_that_does_not_say_is_waited_for_so_long(autojump_clock: MockClock) -> None:
    models = HostModels()
    async with played_host(models=models) as host:
        client = await host.attach(lendsModels=True)
        assert await models.find(PROVIDER, MODEL) == LATE
        asked = await client.expect("find_model")
        # Too late, and to nobody: the session stays.
        await client.send(type="model", request=asked["request"], hasPrice=True)
        await client.silence()


async def test_client_that_goes_before_it_says_is_waited_for_no_longer() -> None:
    models = HostModels()
    found = []
    async with played_host(models=models) as host, trio.open_nursery() as nursery:

        async def find() -> None:
            found.append(await models.find(PROVIDER, MODEL))

        client = await host.attach(lendsModels=True)
        nursery.start_soon(find)
        await client.expect("find_model")
        await client.stream.aclose()
    assert found == [LEFT]


async def test_answer_comes_over_the_bridge_piece_by_piece() -> None:
    async with lending() as (_, models, lender), trio.open_nursery() as nursery:
        agents = Agents(nursery, models)
        agents.ask("one")
        [number] = await lender.opened()
        asked = lender.streams[number]
        assert asked == {
            "type": "stream",
            "request": number,
            "provider": PROVIDER,
            "model": MODEL,
            "thinking": "off",
            "system": "",
            "messages": [{"role": "user", "content": "go"}],
            "tools": [],
        }
        await lender.say(number, text("so"))
        await lender.say(number, text(" it"), text(" is"), END)
    assert agents.heard == {"one": [TextPiece("so"), TextPiece(" it"), TextPiece(" is"), ENDED]}
    assert lender.aborted == []


async def test_eight_answers_at_once_and_one_that_stalls_delays_no_other() -> None:
    names = [str(number) for number in range(8)]
    async with lending() as (_, models, lender), trio.open_nursery() as nursery:
        agents = Agents(nursery, models)
        agents.ask(*names)
        stalled, *others = await lender.opened(8)
        await lender.say(stalled, text("wait"))
        for _ in range(20):
            for number in others:
                await lender.say(number, text("on"))
        for number in others:
            await lender.say(number, END)
        await wait_all_tasks_blocked()
        assert len(agents.heard) == 7
        assert all(len(pieces) == 21 for pieces in agents.heard.values())
        await lender.say(stalled, END)
    assert sorted(agents.heard) == names


async def test_agent_that_takes_nothing_is_sent_nothing_more() -> None:
    async with lending() as (_, models, lender):
        async with lent_model(models).stream("", [UserMessage("go")], ()) as pieces:
            async with trio.open_nursery() as nursery:

                async def answer() -> None:
                    [number] = await lender.opened()
                    await lender.say(number, text("one"), text("two"))

                nursery.start_soon(answer)
                assert await anext(pieces) == TextPiece("one")
            await wait_all_tasks_blocked()
            [number] = lender.streams
            assert lender.asked == {number: 0}
            assert await anext(pieces) == TextPiece("two")
        await lender.wait_aborted(number)


async def test_client_that_sends_more_than_it_is_asked_for_loses_the_answer() -> None:
    async with lending() as (_, models, lender):
        async with lent_model(models).stream("", [UserMessage("go")], ()) as pieces:
            async with trio.open_nursery() as nursery:

                async def answer() -> None:
                    [number] = await lender.opened()
                    await lender.say(number, text("one"))

                nursery.start_soon(answer)
                assert await anext(pieces) == TextPiece("one")
            [number] = lender.streams
            for said in ("two", "three", "four"):
                await lender.push(number, text(said))
            await wait_all_tasks_blocked()
            assert [piece async for piece in pieces] == [GONE]
        await lender.wait_aborted(number)
        assert await models.find(PROVIDER, MODEL) == Listing(None, has_price=True)


async def test_answer_that_was_not_asked_for_yet_is_not_taken_back() -> None:
    async with lending() as (_, models, lender):
        async with lent_model(models).stream("", [UserMessage("go")], ()) as pieces:
            with trio.move_on_after(0):
                await anext(pieces)
        await wait_all_tasks_blocked()
        assert (lender.streams, lender.aborted) == ({}, [])


async def test_given_up_answer_is_taken_back() -> None:
    async with lending() as (_, models, lender):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(heard, models)
            [number] = await lender.opened()
            nursery.cancel_scope.cancel()
        await lender.wait_aborted(number)
        # What was on its way is to nobody.
        await lender.push(number, text("late"))
        assert await models.find(PROVIDER, MODEL) == Listing(None, has_price=True)


async def test_pi_that_goes_ends_its_answers_and_the_next_one_is_asked_again() -> None:
    models = HostModels()
    async with played_host(models=models) as host, trio.open_nursery() as nursery:
        agents = Agents(nursery, models)
        async with lent(host) as lender:
            agents.ask("cut")
            [number] = await lender.opened()
            await lender.say(number, text("so"))
        await wait_all_tasks_blocked()
        assert agents.heard == {"cut": [TextPiece("so"), GONE]}
        agents.ask("waits")
        await wait_all_tasks_blocked()
        # A client that lends nothing is no session that it could wait for.
        silent = await host.attach()
        await wait_all_tasks_blocked()
        await silent.stream.aclose()
        async with lent(host) as lender:
            [number] = await lender.opened()
            await lender.say(number, END)
            await wait_all_tasks_blocked()
    assert agents.heard["waits"] == [ENDED]


async def test_agent_waits_for_a_session_until_its_deadline(autojump_clock: MockClock) -> None:
    with trio.move_on_after(3600) as scope:
        await heard(HostModels())
    assert scope.cancelled_caught


async def test_pi_that_another_one_replaces_ends_its_answers() -> None:
    models = HostModels()
    async with played_host(models=models) as host, trio.open_nursery() as nursery:
        agents = Agents(nursery, models)
        async with lent(host) as first:
            agents.ask("cut")
            await first.opened()
            async with lent(host) as second:
                await wait_all_tasks_blocked()
                assert agents.heard == {"cut": [GONE]}
                # The one that leaves takes nothing away from the one that came.
                await first.client.stream.aclose()
                agents.ask("goes on")
                [number] = await second.opened()
                await second.say(number, END)
                await wait_all_tasks_blocked()
    assert agents.heard["goes on"] == [ENDED]


async def test_agent_whose_pi_is_reloaded_goes_on_with_the_next_one() -> None:
    models = HostModels()
    broken: list[AnswerFailed] = []
    answers: list[AssistantMessage] = []

    async def keep(_: AssistantMessage, end: AnswerFailed) -> None:
        broken.append(end)

    async def work() -> None:
        traffic, budget = Traffic(Limiter(8), lambda: 0.0), Budget(max_turns=9, max_tool_calls=9)
        attempt = AttemptId(TaskId("look"), 1)
        asker = Asker(attempt, lent_model(models), traffic, budget, lambda _: None)
        message, _ = await asker.ask(Question("", [UserMessage("go")]), keep)
        answers.append(message)
        assert budget.spent.usage == Usage(7, 3, 0.5)

    async with played_host(models=models) as host, trio.open_nursery() as nursery:
        nursery.start_soon(work)
        async with lent(host) as lender:
            [number] = await lender.opened()
            await lender.say(number, text("half an ans"))
        async with lent(host) as lender:
            [number] = await lender.opened()
            await lender.say(number, text("an answer"), END)
            await wait_all_tasks_blocked()
    assert broken == [GONE]
    assert answers == [AssistantMessage("an answer")]
