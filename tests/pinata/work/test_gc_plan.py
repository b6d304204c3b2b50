"""What may go is decided without looking at anything twice, and doubt keeps it."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from engine.core.ids import RunId, TaskId
from pinata.work.gc_plan import (
    GRACE_MS,
    CreationFacts,
    Item,
    RunFacts,
    Standing,
    What,
    WorktreeFacts,
    candidates,
    hands_off,
    make_plan,
    why_not_abandoned,
)
from worktrees.journal import JournalState

RUN, FIX = RunId("0123456789abcdef"), TaskId("fix")
PLACE = WorktreeFacts("fix", Path("/w/fix"), FIX, Standing.PRESENT)
PULL = WorktreeFacts("pr.7", Path("/w/pr.7"), None, Standing.PRESENT)
REFS = {"refs/pinata/0123456789abcdef/base": "1" * 40}
INDEXES = Path("/r/indexes")
SCRATCH = Path("/r/scratch/index-1")
NOT_IN = "its change was not integrated"
WRITER = RunFacts(
    RUN,
    at_stake=frozenset({FIX}),
    outstanding=NOT_IN,
    worktrees=(PLACE, PULL),
    refs=REFS,
    indexes=(INDEXES,),
    waste=(SCRATCH,),
)
INTEGRATED = replace(WRITER, outstanding=None)
CLEAN = {"fix": None, "pr.7": None}


def test_run_without_writers_is_retired_and_nothing_else() -> None:
    plan = make_plan(RunFacts(RUN), {}, discard=False)
    assert (plan.retire, plan.removals(RUN), plan.kept) == (True, [], ())
    assert not plan.is_empty


def test_retired_run_of_which_nothing_is_left_has_nothing_to_do() -> None:
    assert make_plan(RunFacts(RUN, is_retired=True), {}, discard=False).is_empty


def test_integrated_run_gives_up_everything_but_its_words() -> None:
    plan = make_plan(INTEGRATED, CLEAN, discard=False)
    assert plan.retire
    assert plan.removals(RUN) == [
        Item(What.WORKTREE, "/w/fix", RUN),
        Item(What.WORKTREE, "/w/pr.7", RUN),
        Item(What.REF, next(iter(REFS)), RUN),
        Item(What.FILE, str(INDEXES), RUN),
        Item(What.FILE, str(SCRATCH), RUN),
    ]
    assert plan.kept == ()


def test_change_that_is_nowhere_else_keeps_its_worktree_and_objects() -> None:
    assert candidates(WRITER, discard=False) == (PULL,)
    plan = make_plan(WRITER, {"pr.7": None}, discard=False)
    assert (plan.worktrees, plan.retire, plan.refs, plan.files) == ((PULL,), False, {}, (SCRATCH,))
    says = f"{NOT_IN}: integrate or repair it, or name the run with --discard"
    assert plan.kept == (Item(What.WORKTREE, "/w/fix", RUN, says),)


def test_change_whose_worktree_is_gone_keeps_the_objects() -> None:
    plan = make_plan(replace(WRITER, worktrees=()), {}, discard=False)
    says = f"{NOT_IN}: integrate or repair it, or name the run with --discard"
    assert plan.kept == (Item(What.RUN, RUN, RUN, says),)
    assert (plan.retire, plan.refs) == (False, {})


def test_change_that_is_not_wanted_goes() -> None:
    assert make_plan(WRITER, CLEAN, discard=True) == make_plan(INTEGRATED, CLEAN, discard=False)


@pytest.mark.parametrize("discard", [False, True])
def test_worktree_that_somebody_touched_stays_with_all_that_it_needs(discard: bool) -> None:  # noqa: FBT001 - a parameter of the test
    touched = CLEAN | {"fix": "mine.txt differs from what was captured"}
    plan = make_plan(INTEGRATED, touched, discard=discard)
    assert plan.worktrees == (PULL,)
    assert (plan.retire, plan.refs, plan.files) == (False, {}, (SCRATCH,))
    assert plan.kept == (Item(What.WORKTREE, "/w/fix", RUN, touched["fix"]),)


def test_removal_that_was_cut_short_is_gone_on_with() -> None:
    aside = replace(PLACE, standing=Standing.ASIDE)
    facts = replace(WRITER, worktrees=(aside,))
    assert candidates(facts, discard=False) == (aside,)
    plan = make_plan(facts, {"fix": None}, discard=False)
    assert (plan.worktrees, plan.retire) == ((aside,), False)
    assert [item.what for item in plan.kept] == [What.RUN]


def test_retirement_that_was_cut_short_is_gone_on_with() -> None:
    facts = replace(WRITER, is_retired=True, outstanding=None, worktrees=())
    plan = make_plan(facts, {}, discard=False)
    assert (plan.retire, plan.refs, plan.files) == (False, REFS, (INDEXES, SCRATCH))


def test_what_no_record_names_stays_and_keeps_nothing_else() -> None:
    facts = replace(
        RunFacts(RUN, refs=REFS), strangers=(Path("/w/mine"),), foreign_refs=("refs/pinata/r/x",)
    )
    plan = make_plan(facts, {}, discard=False)
    assert (plan.retire, plan.refs) == (True, REFS)
    assert plan.kept == (
        Item(What.FILE, "/w/mine", RUN, "no record of the run names it"),
        Item(What.REF, "refs/pinata/r/x", RUN, "it is not what the run's records say"),
    )


def test_worktree_in_another_state_folder_keeps_the_objects() -> None:
    plan = make_plan(
        replace(INTEGRATED, worktrees=(), elsewhere=(Path("/x/fix"),)), {}, discard=False
    )
    assert (plan.retire, plan.refs) == (False, {})
    assert [(item.name, item.what) for item in plan.kept] == [("/x/fix", What.WORKTREE)]


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        (RunFacts(RUN, owner="process 7"), "it is owned by process 7"),
        (RunFacts(RUN, damage="run.json is damaged"), "run.json is damaged"),
        (RunFacts(RUN, is_settled=False), "it has not settled: `pinata resume"),
        (RunFacts(RUN, journal=JournalState.APPLYING), "its integration was interrupted"),
        (RunFacts(RUN, journal=JournalState.VERIFYING), "its integration was interrupted"),
        (RunFacts(RUN, journal=JournalState.ROLLING_BACK), "a rollback was begun"),
    ],
)
def test_run_that_is_not_at_rest_is_not_touched(facts: RunFacts, says: str) -> None:
    whole = replace(
        INTEGRATED,
        owner=facts.owner,
        damage=facts.damage,
        is_settled=facts.is_settled,
        journal=facts.journal,
    )
    assert candidates(whole, discard=True) == ()
    plan = make_plan(whole, {}, discard=True)
    assert plan.is_empty
    (kept,) = plan.kept
    assert kept.reason is not None
    assert kept.reason.startswith(says)


@pytest.mark.parametrize("journal", [None, JournalState.VERIFIED, JournalState.ROLLED_BACK])
def test_run_at_rest_may_be_looked_at(journal: JournalState | None) -> None:
    assert hands_off(RunFacts(RUN, journal=journal)) is None


SAYS = st.sampled_from([None, "so it is"])
STANDINGS = st.sampled_from(Standing)
FACTS = st.builds(
    RunFacts,
    run=st.just(RUN),
    owner=SAYS,
    damage=SAYS,
    is_settled=st.booleans(),
    is_retired=st.booleans(),
    journal=st.sampled_from([None, *JournalState]),
    at_stake=st.sampled_from([frozenset[TaskId](), frozenset({FIX})]),
    outstanding=SAYS,
    worktrees=st.tuples(STANDINGS, STANDINGS).map(
        lambda both: (replace(PLACE, standing=both[0]), replace(PULL, standing=both[1]))
    ),
    elsewhere=st.sampled_from([(), (Path("/x/fix"),)]),
    strangers=st.just(()),
    refs=st.just(REFS),
    foreign_refs=st.just(()),
    indexes=st.just((INDEXES,)),
    waste=st.just((SCRATCH,)),
)


@given(FACTS, SAYS, SAYS, st.booleans())
def test_objects_go_only_after_every_worktree_and_whatever_stays_has_a_reason(
    facts: RunFacts,
    fix: str | None,
    pull: str | None,
    discard: bool,  # noqa: FBT001 - drawn by the library
) -> None:
    plan = make_plan(facts, {"fix": fix, "pr.7": pull}, discard=discard)
    if plan.refs or plan.retire or INDEXES in plan.files:
        assert set(plan.worktrees) == set(facts.worktrees)
        assert hands_off(facts) is None
        assert facts.is_retired or discard or not facts.at_stake or facts.outstanding is None
    if hands_off(facts) is None and not plan.retire and not facts.is_retired:
        assert plan.kept
    named = {item.name for item in plan.kept}
    untouched = hands_off(facts) is not None
    assert all(
        untouched or each in plan.worktrees or str(each.path) in named for each in facts.worktrees
    )
    assert all(item.reason for item in plan.kept)
    assert all(item.reason is None for item in plan.removals(RUN))


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        (CreationFacts(RUN, "process 7", 2 * GRACE_MS, ()), "it is being made by process 7"),
        (CreationFacts(RUN, None, GRACE_MS - 1, ()), "it was begun less than an hour ago"),
        (
            CreationFacts(RUN, None, 2 * GRACE_MS, ("events.jsonl",)),
            "run.json is missing beside events.jsonl",
        ),
    ],
)
def test_folder_that_somebody_may_be_making_or_have_damaged_stays(
    facts: CreationFacts, says: str
) -> None:
    reason = why_not_abandoned(facts)
    assert reason is not None
    assert reason.startswith(says)


def test_folder_that_nobody_will_finish_goes() -> None:
    assert why_not_abandoned(CreationFacts(RUN, None, GRACE_MS, ())) is None
