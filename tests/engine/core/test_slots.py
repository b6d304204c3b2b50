import pytest

from engine.core.ids import AttemptId, TaskId
from engine.core.limiter import Limiter, Room
from engine.core.slots import open_slots

A1, B1, C1 = (AttemptId(TaskId(name), 1) for name in "abc")
PROVIDERS = {A1.task: "p", B1.task: "p", C1.task: "q"}
FREE = Room(total=3, free={"p": 3, "q": 3})


def test_a_slot_is_held_from_taking_it_to_giving_it_back() -> None:
    limiter = Limiter(3)
    with open_slots(limiter, PROVIDERS, lambda: None) as slots:
        slots.take(A1)
        slots.take(C1)
        assert limiter.room("pq") == Room(total=1, free={"p": 2, "q": 2})
        slots.give_back(A1)
        assert limiter.room("pq") == Room(total=2, free={"p": 3, "q": 2})
    assert limiter.room("pq") == FREE


def test_what_is_still_held_is_given_back_when_the_run_breaks() -> None:
    limiter = Limiter(3)

    def break_off() -> None:
        with open_slots(limiter, PROVIDERS, lambda: None) as slots:
            slots.take(A1)
            slots.take(B1)
            slots.give_back(A1)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        break_off()
    assert limiter.room("pq") == FREE


def test_a_run_hears_of_room_until_it_leaves() -> None:
    limiter, told = Limiter(3), list[str]()
    with open_slots(limiter, PROVIDERS, lambda: told.append("room")) as slots:
        slots.take(A1)
        slots.give_back(A1)
        assert told == ["room"]
        slots.take(B1)
    limiter.start("p")
    limiter.end("p")
    assert told == ["room"]
