from collections.abc import Awaitable, Callable

import pytest
import trio

from engine.core.errors import ConflictError, ExternalError
from engine.system.nursery import open_flat_nursery

Work = Callable[[], Awaitable[None]]


def fails(error: Exception) -> Work:
    async def work() -> None:
        await trio.lowlevel.checkpoint()
        raise error

    return work


def fails_when_cancelled(error: Exception) -> Work:
    async def work() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise error

    return work


async def together(block: Work, *tasks: Work) -> None:
    async with open_flat_nursery() as nursery:
        for task in tasks:
            nursery.start_soon(task)
        await block()


async def test_a_block_without_errors_waits_for_its_tasks() -> None:
    done = []

    async def work() -> None:
        await trio.lowlevel.checkpoint()
        done.append("work")

    await together(trio.lowlevel.checkpoint, work)
    assert done == ["work"]


async def test_an_error_of_the_block_comes_out_as_it_is_and_ends_the_tasks() -> None:
    mine = KeyError("mine")
    with pytest.raises(KeyError) as caught:
        await together(fails(mine), trio.sleep_forever)
    assert caught.value is mine
    assert caught.value.__context__ is None


async def test_an_error_of_a_task_comes_out_as_it_is_and_ends_the_block() -> None:
    theirs = KeyError("theirs")
    with pytest.raises(KeyError) as caught:
        await together(trio.sleep_forever, fails(theirs))
    assert caught.value is theirs
    assert caught.value.__context__ is None


async def test_of_several_errors_raised_on_purpose_one_comes_out() -> None:
    async def inner() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fails_when_cancelled(ConflictError("moved")))
            await fails(ConflictError("moved"))()

    with pytest.raises(ConflictError, match="moved"):
        await together(inner, fails_when_cancelled(ConflictError("moved")))


async def test_a_bug_beside_an_error_is_not_hidden() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        await together(
            fails(ExternalError("the disk is full")), fails_when_cancelled(AssertionError())
        )
    assert caught.group_contains(AssertionError)
    assert caught.group_contains(ExternalError)


async def test_being_cancelled_ends_where_it_began() -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        with pytest.raises(trio.Cancelled):
            await together(trio.sleep_forever, trio.sleep_forever)
        await trio.lowlevel.checkpoint()
    assert scope.cancelled_caught


async def test_an_error_beside_being_cancelled_is_told() -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        with pytest.raises(ExternalError):
            await together(trio.sleep_forever, fails_when_cancelled(ExternalError("disk full")))
    assert not scope.cancelled_caught
