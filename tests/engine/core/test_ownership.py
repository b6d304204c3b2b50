from itertools import combinations

import pytest
from hypothesis import given, strategies as st

from engine.core.graph import TaskGraph
from engine.core.ownership import (
    Ownership,
    OwnershipOverlapError,
    check_independent,
    normalise_entry,
)
from engine.core.spec import Kind, TaskSpec
from tests.support.jobs import task_spec


def writer(name: str, *after: str, owns: tuple[str, ...]) -> TaskSpec:
    return task_spec(name, *after, kind=Kind.WRITER, owns=owns)


def check(*specs: TaskSpec, fold_case: bool = False) -> None:
    check_independent(TaskGraph.build(specs), specs, fold_case=fold_case)


@pytest.mark.parametrize(
    ("text", "entry"), [("src/", "src"), ("src", "src"), ("/", "/"), ("a//", "a/"), ("", "")]
)
def test_one_slash_at_the_end_is_dropped(text: str, entry: str) -> None:
    assert normalise_entry(text) == entry


@pytest.mark.parametrize(
    "path", [b"src", b"src/a", b"src/a/b", b"src/\xff", b"docs/a.md", b"docs/a.md/x"]
)
def test_an_entry_owns_itself_and_what_lies_beneath_it(path: bytes) -> None:
    assert Ownership.build(["src", "docs/a.md"], fold_case=False).owns(path)


@pytest.mark.parametrize("path", [b"srcx/a", b"sr", b"docs/b.md", b"docs", b"", b"SRC/a"])
def test_an_entry_owns_nothing_else(path: bytes) -> None:
    assert not Ownership.build(["src", "docs/a.md"], fold_case=False).owns(path)


def test_names_that_differ_in_letter_case_are_one_where_the_volume_says_so() -> None:
    assert Ownership.build(["Src"], fold_case=True).owns(b"sRC/a")
    assert not Ownership.build(["Src"], fold_case=False).owns(b"sRC/a")


def test_an_ownership_answers_many_questions() -> None:
    mine = Ownership.build(["a", "b/c"], fold_case=False)
    assert [mine.owns(path) for path in (b"a/x", b"b/c", b"b/d", b"c")] == [
        True,
        True,
        False,
        False,
    ]


def test_independent_writers_may_not_share_a_path() -> None:
    with pytest.raises(OwnershipOverlapError) as caught:
        check(writer("a", owns=("docs", "src")), writer("b", owns=("src/x.ts",)))
    assert str(caught.value) == (
        'task b: ownership: "src/x.ts" overlaps "src" of task a, and neither waits for the other; '
        "divide the paths or put one task into the other's after"
    )


def test_the_later_task_is_blamed_also_when_it_owns_the_folder() -> None:
    with pytest.raises(OwnershipOverlapError) as caught:
        check(writer("a", owns=("src/x.ts",)), writer("b", owns=("src",)))
    assert (caught.value.first, caught.value.second) == (("a", "src/x.ts"), ("b", "src"))


def test_of_several_folders_the_nearest_is_named() -> None:
    with pytest.raises(OwnershipOverlapError) as caught:
        check(writer("a", owns=("src", "src/x")), writer("b", owns=("src/x/y",)))
    assert caught.value.first == ("a", "src/x")


def test_of_several_overlaps_the_one_whose_later_task_comes_first_is_named() -> None:
    with pytest.raises(OwnershipOverlapError) as caught:
        check(
            writer("a", owns=("z",)),
            writer("b", owns=("m",)),
            writer("c", owns=("z/1", "m")),
            writer("d", owns=("a", "z")),
            writer("e", owns=("a",)),
        )
    assert (caught.value.first, caught.value.second) == (("a", "z"), ("c", "z/1"))


def test_neighbours_with_a_common_beginning_do_not_overlap() -> None:
    check(writer("a", owns=("src",)), writer("b", owns=("srcx",)), writer("c", owns=("src-a/b",)))


def test_writers_may_share_when_one_waits_for_the_other_through_a_reader() -> None:
    check(
        writer("a", owns=("a.txt",)),
        task_spec("look", "a"),
        writer("b", "look", owns=("a.txt", "a.txt/x")),
    )


def test_one_ordered_pair_does_not_excuse_an_independent_third() -> None:
    with pytest.raises(OwnershipOverlapError) as caught:
        check(
            writer("a", owns=("src",)),
            writer("b", "a", owns=("src/x",)),
            writer("c", owns=("src/x/y",)),
        )
    assert (caught.value.first, caught.value.second) == (("a", "src"), ("c", "src/x/y"))


def test_letter_case_decides_only_where_the_volume_folds_it() -> None:
    specs = (writer("a", owns=("Src",)), writer("b", owns=("src/x",)))
    check(*specs)
    with pytest.raises(OwnershipOverlapError):
        check(*specs, fold_case=True)


def test_a_writer_may_own_a_folder_and_what_lies_in_it() -> None:
    check(writer("a", owns=("src", "src/x", "SRC")), fold_case=True)


entries = st.lists(st.sampled_from("ab"), min_size=1, max_size=3).map("/".join)


@st.composite
def writers(draw: st.DrawFn) -> list[TaskSpec]:
    names = [f"t{at}" for at in range(draw(st.integers(1, 6)))]
    specs = []
    for at, name in enumerate(names):
        after = draw(st.lists(st.sampled_from(names[:at]), unique=True)) if at else []
        owned = draw(st.lists(entries, max_size=3, unique=True))
        specs.append(writer(name, *after, owns=tuple(owned)))
    return specs


def holds(one: str, other: str) -> bool:
    return one == other or other.startswith(one + "/")


@given(writers())
def test_the_sweep_finds_what_comparing_every_pair_finds(specs: list[TaskSpec]) -> None:
    graph = TaskGraph.build(specs)
    clashing = [
        (later.id, earlier.id)
        for earlier, later in combinations(specs, 2)
        if earlier.id not in graph.ancestors(later.id)
        and any(holds(a, b) or holds(b, a) for a in earlier.ownership for b in later.ownership)
    ]
    if not clashing:
        check_independent(graph, specs, fold_case=False)
        return
    with pytest.raises(OwnershipOverlapError) as caught:
        check_independent(graph, specs, fold_case=False)
    (first, mine), (second, theirs) = caught.value.first, caught.value.second
    assert (second, first) == min(clashing)
    assert holds(mine, theirs) or holds(theirs, mine)
