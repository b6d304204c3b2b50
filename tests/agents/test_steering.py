import trio

from agents.steering import MAX_UNREAD, MAX_UNREAD_BYTES, Steer, Steers
from engine.core.events import Sender


async def test_messages_are_taken_in_order_and_follow_ups_wait() -> None:
    steers = Steers()
    steers.post("one", follow_up=False)
    steers.post("later", follow_up=True, sender=Sender.USER)
    steers.post("two", follow_up=False)
    assert await steers.take(follow_ups=False) == (Steer("one"), Steer("two"))
    assert await steers.take(follow_ups=False) == ()
    assert steers.unread == (Steer("later", follow_up=True, sender=Sender.USER),)
    steers.post("three", follow_up=False)
    taken = await steers.take(follow_ups=True)
    assert [steer.text for steer in taken] == ["later", "three"]


async def test_messages_that_nobody_reads_are_bounded_by_number_until_some_are_read() -> None:
    steers = Steers()
    for number in range(MAX_UNREAD):
        assert steers.has_room_for("x")
        steers.post("x", follow_up=number == 0)
    assert not steers.has_room_for("x")
    await steers.take(follow_ups=False)
    assert steers.has_room_for("x")
    assert len(steers.unread) == 1


def test_messages_that_nobody_reads_are_bounded_by_their_length() -> None:
    steers = Steers()
    half = "é" * (MAX_UNREAD_BYTES // 4)
    steers.post(half, follow_up=False)
    assert not steers.has_room_for(half + "x")
    assert steers.has_room_for(half)
    steers.post(half, follow_up=False)
    assert not steers.has_room_for("\ud800")


async def test_a_message_is_recorded_before_it_is_handed_over() -> None:
    recorded: list[str] = []

    async def record(steer: Steer) -> None:
        await trio.lowlevel.checkpoint()
        recorded.append(steer.text)

    steers = Steers(record)
    steers.post("one", follow_up=False)
    assert recorded == []
    await steers.take(follow_ups=False)
    assert recorded == ["one"]


async def test_a_message_whose_recording_is_cancelled_stays_unread() -> None:
    async def record(steer: Steer) -> None:
        await trio.sleep(1)

    steers = Steers(record)
    steers.post("one", follow_up=False)
    with trio.CancelScope() as scope:
        scope.cancel()
        await steers.take(follow_ups=False)
    assert steers.unread == (Steer("one"),)


async def test_what_nobody_reads_any_more_can_be_told() -> None:
    steers = Steers()
    steers.post("too late", follow_up=True)
    steers.close()
    assert not steers.is_open
    assert steers.unread == (Steer("too late", follow_up=True),)
