"""Tests of `agents.herdsman.references`."""

import pytest
from hypothesis import given, strategies as st

from agents.herdsman.errors import Category, HerdError
from agents.herdsman.identity import Label, RequestId, SessionId
from agents.herdsman.record import Binding
from agents.herdsman.references import (
    MOST_INDEX,
    Canonical,
    Semantic,
    binding_details,
    binding_fault,
    highest_index,
    import_bindings,
    parse_reference,
    resolve,
    result_details,
)
from agents.herdsman.runtime import BINDING, QUESTION, RESULT, Entry
from tests.support.herd_records import request, uid

SCOUT = Label("scout")
FIRST = Semantic(SCOUT, 1)
FIRST_RESULT, SECOND_RESULT = Canonical(request("first")), Canonical(request("second"))
BOUND = Binding(str(FIRST), str(FIRST_RESULT))


def delivered(name: str, index: int, label: str = "scout", *, on_branch: bool = True) -> Entry:
    """Return the message with a result."""
    return Entry(RESULT, result_details(request(name), Label(label), index), on_branch)


def imported(binding: Binding, *, on_branch: bool = True) -> Entry:
    return Entry(BINDING, binding_details(binding), on_branch)


def category(caught: "pytest.ExceptionInfo[HerdError]") -> Category:
    return caught.value.trouble.category


@pytest.mark.parametrize("text", ["notes.md", "./result:scout#1", "/data/a", "Result:scout#1", ""])
def test_what_does_not_begin_like_a_reference_is_an_ordinary_path(text: str) -> None:
    assert parse_reference(text) is None


def test_a_reference_is_read_as_it_is_written() -> None:
    assert parse_reference("result:scout#1") == FIRST
    assert parse_reference(f"result:scout#{MOST_INDEX}") == Semantic(SCOUT, MOST_INDEX)
    assert parse_reference(str(FIRST_RESULT)) == FIRST_RESULT


@pytest.mark.parametrize(
    "name",
    [
        "scout#01",
        "scout#0",
        "scout#",
        "#1",
        "scout#-1",
        "scout#1 ",
        "scout#1\n",
        "Scout#1",
        "scout#\u0661",
        f"scout#{MOST_INDEX + 1}",
        "scout#1#2",
        f"{'a' * 33}#1",
        "",
        "scout",
        uid("first").upper(),
        uid("first")[:8],
        f"{uid('first')}\n",
        f"../{uid('first')}",
    ],
)
def test_a_reference_with_a_slip_is_refused_and_not_taken_for_a_path(name: str) -> None:
    with pytest.raises(HerdError, match="no reference to a result") as caught:
        parse_reference(f"result:{name}")
    assert category(caught) is Category.INVALID_REQUEST
    assert "./result:" in caught.value.trouble.next_action


@given(st.text())
def test_any_text_is_a_reference_a_path_or_refused(text: str) -> None:
    for given_text in (text, f"result:{text}"):
        try:
            found = parse_reference(given_text)
        except HerdError:
            assert given_text.startswith("result:")
        else:
            assert (found is None) is not given_text.startswith("result:")
            assert found is None or str(found) == given_text


@pytest.mark.parametrize("label", ["a", "a" * 32, "z9_-", "a--b__c"])
def test_every_label_can_be_referred_to(label: str) -> None:
    reference = Semantic(Label(label), 7)
    assert parse_reference(str(reference)) == reference


def test_two_results_of_one_label_are_told_apart() -> None:
    entries = [delivered("first", 1), delivered("second", 2)]
    assert resolve(FIRST, entries) == FIRST_RESULT
    assert resolve(Semantic(SCOUT, 2), entries) == SECOND_RESULT


def test_a_reference_means_nothing_before_its_delivery_and_on_other_branches() -> None:
    others = [
        delivered("first", 1, on_branch=False),
        imported(BOUND, on_branch=False),
        delivered("first", 1, label="tester"),
        delivered("first", 11),
        Entry(RESULT, {**result_details(request("first"), SCOUT, 1), "resultIndex": True}),
        Entry(QUESTION, result_details(RequestId(uid("q")), SCOUT, 1)),
    ]
    with pytest.raises(HerdError, match="result:scout#1 stands for no result here") as caught:
        resolve(FIRST, others)
    assert category(caught) is Category.TARGET_NOT_FOUND


def test_an_imported_reference_means_what_it_was_imported_as() -> None:
    assert resolve(FIRST, [imported(BOUND)]) == FIRST_RESULT
    assert resolve(FIRST, [delivered("first", 1), imported(BOUND), imported(BOUND)]) == FIRST_RESULT


def test_a_reference_that_means_two_results_is_ambiguous() -> None:
    with pytest.raises(HerdError, match="2 different results") as caught:
        resolve(FIRST, [imported(BOUND), delivered("second", 1)])
    assert category(caught) is Category.TARGET_AMBIGUOUS


@pytest.mark.parametrize(
    "details",
    [
        {"request": request("second")},
        {"canonicalRef": str(SECOND_RESULT)},
        {"canonicalRef": None},
        {"canonicalRef": "result:scout#1"},
        {"canonicalRef": "result:nonsense"},
    ],
)
def test_a_message_that_names_a_result_not_its_own_is_a_failure_of_ours(
    details: dict[str, object],
) -> None:
    entry = delivered("first", 1)
    with pytest.raises(HerdError, match="not its own") as caught:
        resolve(FIRST, [Entry(RESULT, {**entry.details, **details})])
    assert category(caught) is Category.INTERNAL_FAILURE


def test_a_broken_import_is_a_failure_of_ours() -> None:
    with pytest.raises(HerdError, match="broken form") as caught:
        resolve(FIRST, [Entry(BINDING, {"semantic": str(FIRST), "canonical": 7})])
    assert category(caught) is Category.INTERNAL_FAILURE


def test_an_import_that_is_there_is_not_made_again() -> None:
    second = Binding("result:scout#2", str(SECOND_RESULT))
    assert import_bindings([BOUND, second], []) == (BOUND, second)
    assert import_bindings([BOUND, second], [imported(BOUND)]) == (second,)
    assert import_bindings([BOUND], [delivered("first", 1)]) == ()


def test_an_import_is_made_again_on_a_branch_that_lacks_it() -> None:
    assert import_bindings([BOUND], [imported(BOUND, on_branch=False)]) == (BOUND,)


def test_an_imported_reference_travels_on() -> None:
    owner = [delivered("first", 1)]
    task = Binding(str(FIRST), str(resolve(FIRST, owner)))
    agent = [imported(one) for one in import_bindings([task], [])]
    assert resolve(FIRST, agent) == FIRST_RESULT


def test_an_import_that_contradicts_what_the_session_knows_is_refused() -> None:
    with pytest.raises(HerdError, match="another result") as caught:
        import_bindings([BOUND], [delivered("second", 1)])
    assert category(caught) is Category.TARGET_AMBIGUOUS


@pytest.mark.parametrize(
    "binding",
    [
        Binding("result:scout#01", str(FIRST_RESULT)),
        Binding(str(FIRST_RESULT), str(FIRST_RESULT)),
        Binding(str(FIRST), str(FIRST)),
        Binding("scout", str(FIRST_RESULT)),
    ],
)
def test_what_is_no_binding_is_not_imported(binding: Binding) -> None:
    assert binding_fault(binding) is not None
    with pytest.raises(HerdError) as caught:
        import_bindings([binding], [])
    assert category(caught) is Category.INVALID_REQUEST


def test_the_highest_number_counts_all_branches_and_imports_of_its_label() -> None:
    assert highest_index(SCOUT, []) == 0
    entries = [
        delivered("first", 2, on_branch=False),
        delivered("second", 9, label="tester"),
        Entry(RESULT, {"agentLabel": "scout", "resultIndex": True}),
        Entry(RESULT, {"agentLabel": "scout"}),
        Entry(BINDING, {"semantic": "result:scout#0"}),
        Entry(BINDING, {"semantic": None}),
        Entry(QUESTION, {"session": SessionId("x")}),
    ]
    assert highest_index(SCOUT, entries) == 2
    later = imported(Binding("result:scout#5", str(SECOND_RESULT)))
    assert highest_index(SCOUT, [*entries, later]) == 5
