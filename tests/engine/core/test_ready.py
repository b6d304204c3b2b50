from hypothesis import given, strategies as st

from engine.core.ids import TaskId
from engine.core.limiter import Room
from engine.core.ready import ReadyTasks

A, B, C, D = map(TaskId, "abcd")
PROVIDERS = {A: "p", B: "p", C: "q", D: "q"}


def ready_tasks(*tasks: TaskId) -> ReadyTasks:
    ready = ReadyTasks()
    ready.assign(PROVIDERS)
    for task in tasks:
        ready.add(task)
    return ready


def test_tasks_are_kept_in_the_order_in_which_they_became_ready() -> None:
    ready = ready_tasks(D, A, C, B)
    assert list(ready) == [D, A, C, B]
    assert len(ready) == 4
    assert D in ready
    ready.discard(D)
    ready.discard(D)
    assert list(ready) == [A, C, B]
    assert D not in ready
    ready.add(D)
    assert list(ready) == [A, C, B, D]


def test_a_provider_without_room_is_passed_over_and_holds_up_nobody_else() -> None:
    ready = ready_tasks(A, B, C, D)
    assert ready.first(4, Room(total=9, free={"p": 0, "q": 9})) == [C, D]
    assert ready.first(4, Room(total=9, free={"p": 1, "q": 9})) == [A, C, D]


def test_no_more_are_taken_than_the_run_and_the_process_allow() -> None:
    ready = ready_tasks(D, A, C, B)
    assert ready.first(2, Room(total=9, free={"p": 9, "q": 9})) == [D, A]
    assert ready.first(9, Room(total=3, free={"p": 9, "q": 9})) == [D, A, C]
    assert ready.first(0, Room(total=9, free={"p": 9, "q": 9})) == []
    assert ready.first(9, Room(total=0, free={"p": 9, "q": 9})) == []


def test_only_providers_that_are_waited_for_are_named() -> None:
    ready = ready_tasks(A, C, D)
    assert set(ready.providers) == {"p", "q"}
    ready.discard(A)
    assert set(ready.providers) == {"q"}
    assert not ready_tasks()


def test_tasks_keep_their_places_when_they_are_assigned_to_providers() -> None:
    ready = ReadyTasks()
    for task in (D, A, C, B):
        ready.add(task)
    assert set(ready.providers) == {""}
    ready.assign(PROVIDERS)
    assert list(ready) == [D, A, C, B]
    assert set(ready.providers) == {"p", "q"}
    ready.assign({D: "r"})
    assert list(ready) == [D, A, C, B]
    assert set(ready.providers) == {"r", ""}


STEPS = st.lists(st.tuples(st.booleans(), st.sampled_from([A, B, C, D])), max_size=60)
FREE = st.fixed_dictionaries({"p": st.integers(0, 3), "q": st.integers(0, 3)})


@given(STEPS, FREE, st.integers(0, 5), st.integers(0, 5))
def test_queues_per_provider_choose_as_one_list_of_all_tasks_would(
    steps: list[tuple[bool, TaskId]], free: dict[str, int], total: int, most: int
) -> None:
    ready, plain = ready_tasks(), list[TaskId]()
    for adds, task in steps:
        if adds and task not in plain:
            ready.add(task)
            plain.append(task)
        elif not adds:
            ready.discard(task)
            plain = [each for each in plain if each != task]
    assert list(ready) == plain
    left, chosen = dict(free), list[TaskId]()
    for task in plain:
        if left[PROVIDERS[task]] and len(chosen) < min(most, total):
            left[PROVIDERS[task]] -= 1
            chosen.append(task)
    assert ready.first(most, Room(total, free)) == chosen
