from engine.core.events import AttemptSettled, ToolStarted, TurnStarted, UsageReported
from engine.core.ids import AttemptId, TaskId
from engine.core.outcome import AttemptOutcome, Status
from pinata.work.link_ring import Doings, Entry, Ring

A1, B1 = AttemptId(TaskId("a"), 1), AttemptId(TaskId("b"), 1)


def entry(number: int, size: int = 10) -> Entry:
    return Entry(f"{number:0{size}}".encode(), is_note=False)


def test_a_ring_keeps_the_newest_entries_at_their_places() -> None:
    ring = Ring(most_entries=3)
    entries = [entry(number) for number in range(5)]
    for each in entries:
        ring.append(each)
    assert (ring.start, ring.end) == (2, 5)
    assert ring.since(2, 1_000) == entries[2:]
    assert ring.since(4, 1_000) == entries[4:]
    assert ring.since(5, 1_000) == []


def test_a_ring_holds_no_more_bytes_than_it_may() -> None:
    ring = Ring(most_bytes=100)
    for number in range(1_000):
        ring.append(entry(number, 30))
    assert (ring.start, ring.end) == (997, 1_000)
    ring.append(entry(0, 101))
    assert (ring.start, ring.end) == (1_001, 1_001)


def test_as_much_is_given_as_fits_and_at_least_one() -> None:
    ring = Ring()
    entries = [entry(number) for number in range(5)]
    for each in entries:
        ring.append(each)
    assert ring.since(0, 25) == entries[:2]
    assert ring.since(3, 1) == entries[3:4]


def test_a_ring_that_was_cleared_goes_on_at_the_next_place() -> None:
    ring = Ring()
    ring.append(entry(0))
    ring.clear()
    assert (ring.start, ring.end) == (1, 1)
    ring.append(entry(1))
    assert ring.since(1, 100) == [entry(1)]


def test_what_an_attempt_does_and_has_used_is_known_until_it_ends() -> None:
    doings = Doings()
    usage = UsageReported(A1, 1, 0, 5, 5, None)
    tool = ToolStarted(A1, "c", "bash", "make")
    for event in (TurnStarted(A1, 1), usage, tool, TurnStarted(B1, 1)):
        doings.noted(event)
    assert list(doings) == [tool, usage, TurnStarted(B1, 1)]
    doings.happened(usage)
    doings.happened(AttemptSettled(A1, AttemptOutcome(Status.SUCCEEDED)))
    doings.happened(AttemptSettled(A1, AttemptOutcome(Status.SUCCEEDED)))
    assert list(doings) == [TurnStarted(B1, 1)]
