import pytest
from hypothesis import given, strategies as st

from engine.core.graph import GraphCycleError, TaskGraph, UnknownPredecessorError
from engine.core.ids import TaskId
from engine.core.spec import TaskSpec
from engine.core.state import downstream
from tests.support.jobs import task_spec

A, B, C, D = (TaskId(name) for name in "abcd")


def test_predecessors_come_before_dependents_and_ties_keep_the_inputs_order() -> None:
    graph = TaskGraph.build(
        [task_spec("d", "b", "c"), task_spec("c", "a"), task_spec("b", "a"), task_spec("a")]
    )
    assert graph.order == (A, C, B, D)
    assert graph.predecessors == {D: (B, C), C: (A,), B: (A,), A: ()}
    assert graph.dependents == {D: (), C: (D,), B: (D,), A: (C, B)}


def test_ancestors_and_descendants_reach_through_other_tasks() -> None:
    graph = TaskGraph.build(
        [task_spec("a"), task_spec("b", "a"), task_spec("c", "b", "a"), task_spec("d")]
    )
    assert graph.ancestors(C) == {A, B}
    assert graph.ancestors(A) == frozenset()
    assert downstream(graph, A) == (B, C)
    assert downstream(graph, D) == ()


def test_no_tasks_make_an_empty_graph() -> None:
    assert TaskGraph.build([]) == TaskGraph((), {}, {})


def test_a_cycle_is_printed_as_a_path_from_its_first_task() -> None:
    specs = [task_spec("x"), task_spec("a", "x", "b"), task_spec("b", "c"), task_spec("c", "a")]
    with pytest.raises(GraphCycleError) as caught:
        TaskGraph.build(specs)
    assert caught.value.cycle == (A, B, C, A)
    assert str(caught.value) == (
        "task a: after: the tasks wait for each other: a -> b -> c -> a (each for the next); "
        "take one of them out of after"
    )


def test_a_long_cycle_is_printed_with_its_middle_left_out() -> None:
    specs = [task_spec(f"t{at}", f"t{(at + 1) % 1_000}") for at in range(1_000)]
    with pytest.raises(GraphCycleError) as caught:
        TaskGraph.build(specs)
    assert len(caught.value.cycle) == 1_001
    assert "t0 -> t1 -> t2 -> t3 -> t4 -> (991 more) -> t996 -> " in str(caught.value)


def test_a_task_cannot_wait_for_itself() -> None:
    with pytest.raises(UnknownPredecessorError) as caught:
        TaskGraph.build([task_spec("a"), task_spec("b", "a", "b")])
    assert str(caught.value) == 'task b: after[1]: "b" is the task itself; take it out'


def test_a_task_cannot_wait_for_what_is_not_there() -> None:
    with pytest.raises(UnknownPredecessorError) as caught:
        TaskGraph.build([task_spec("a", "z"), task_spec("b")])
    assert str(caught.value) == (
        'task a: after[0]: "z" is not a task of this run; the other tasks are b'
    )
    with pytest.raises(UnknownPredecessorError, match="there are no other tasks"):
        TaskGraph.build([task_spec("a", "z")])


@st.composite
def acyclic(draw: st.DrawFn) -> list[TaskSpec]:
    count = draw(st.integers(1, 12))
    names = [f"t{at}" for at in range(count)]
    specs = [
        task_spec(
            name, *draw(st.lists(st.sampled_from(names[:at]), unique=True) if at else st.just([]))
        )
        for at, name in enumerate(names)
    ]
    return draw(st.permutations(specs))


@given(acyclic())
def test_any_acyclic_graph_is_ordered_and_its_reach_is_transitive(specs: list[TaskSpec]) -> None:
    graph = TaskGraph.build(specs)
    place = {task: at for at, task in enumerate(graph.order)}
    assert sorted(place) == sorted(spec.id for spec in specs)
    for spec in specs:
        assert all(place[before] < place[spec.id] for before in spec.after)
        direct = set(spec.after)
        assert graph.ancestors(spec.id) == direct.union(*map(graph.ancestors, direct))
        for other in graph.ancestors(spec.id):
            assert spec.id in downstream(graph, other)
