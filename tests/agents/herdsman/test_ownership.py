from agents.herdsman.ownership import Family, Visible
from agents.herdsman.record import Contents
from tests.support.herd_records import LEAD, WORKSPACE, mailbox, session

OTHER_LEAD = session("other lead")


def seen_by_lead(*contents: Contents) -> tuple[Visible, ...]:
    return Family(contents, WORKSPACE).below(LEAD)


def under(parent: str, label: str) -> Contents:
    return mailbox(label, owner=session(parent))


def test_lead_sees_nothing_of_another_lead_in_the_same_workspace() -> None:
    mine, theirs = mailbox("mine"), mailbox("theirs", owner=OTHER_LEAD)
    assert seen_by_lead(mine, theirs, under("theirs", "deep")) == (Visible(mine),)


def test_lead_sees_nothing_of_another_workspace() -> None:
    assert seen_by_lead(mailbox("far", workspace="/elsewhere")) == ()


def test_lead_sees_its_own_agents_first_and_the_others_with_their_parent() -> None:
    parent, leaf, child, deep = (
        mailbox("parent"),
        mailbox("leaf"),
        under("parent", "child"),
        under("child", "deep"),
    )
    assert seen_by_lead(deep, child, parent, leaf) == (
        Visible(leaf),
        Visible(parent),
        Visible(child, parent.state.of.label),
        Visible(deep, child.state.of.label),
    )


def test_grandchild_whose_parent_is_gone_is_shown_to_no_lead() -> None:
    orphan = under("parent", "child")
    assert seen_by_lead(mailbox("else"), orphan) == (Visible(mailbox("else")),)
    assert Family((orphan,), WORKSPACE).below(OTHER_LEAD) == ()


def test_two_that_own_each_other_are_shown_to_no_lead() -> None:
    assert seen_by_lead(under("b", "a"), under("a", "b"), under("a", "leaf")) == ()


def test_one_that_owns_itself_is_shown_to_no_lead() -> None:
    assert seen_by_lead(under("a", "a")) == ()


def test_child_of_a_session_that_two_generations_lead_is_not_attributed() -> None:
    one, two = mailbox("one"), mailbox("two", session=session("one"))
    child = under("one", "child")
    assert seen_by_lead(one, two, child) == (Visible(one), Visible(two))
    family = Family((one, two, child), WORKSPACE)
    assert family.children(one) == family.children(two) == ()


def test_same_session_in_another_workspace_makes_no_doubt() -> None:
    parent, child = mailbox("parent"), under("parent", "child")
    far = mailbox("far", session=session("parent"), workspace="/elsewhere")
    assert seen_by_lead(parent, far, child)[1] == Visible(child, parent.state.of.label)


def test_nothing_is_attributed_to_a_lead_whose_session_a_record_calls_an_agents() -> None:
    twin = mailbox("twin", owner=OTHER_LEAD, session=LEAD)
    assert seen_by_lead(twin, mailbox("mine")) == ()
    assert Family((twin, mailbox("mine")), WORKSPACE).below(OTHER_LEAD) == (
        Visible(twin),
        Visible(mailbox("mine"), twin.state.of.label),
    )


def test_delegating_agent_sees_its_own_agents_alone() -> None:
    parent, child, deep = mailbox("parent"), under("parent", "child"), under("child", "deep")
    everything = (parent, child, deep, mailbox("leaf"))
    assert list(Family(everything, WORKSPACE).working_for(session("parent"))) == [child]


def test_children_are_told_by_label() -> None:
    parent = mailbox("parent")
    family = Family((under("parent", "b"), parent, under("parent", "a")), WORKSPACE)
    assert [one.state.of.label for one in family.children(parent)] == ["a", "b"]


def test_label_is_no_evidence_of_a_parent() -> None:
    parent = mailbox("parent")
    assert seen_by_lead(parent, under("other", "parent-1")) == (Visible(parent),)
