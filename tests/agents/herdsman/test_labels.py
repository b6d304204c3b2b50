from itertools import islice

import pytest

from agents.herdsman.identity import is_label
from agents.herdsman.labels import label_candidates


@pytest.mark.parametrize(
    ("definition", "labels"),
    [
        ("scout", ["scout", "scout-2", "scout-3"]),
        ("Code Reviewer", ["code-reviewer", "code-reviewer-2", "code-reviewer-3"]),
        ("9-lives", ["lives", "lives-2", "lives-3"]),
        ("42", ["agent", "agent-2", "agent-3"]),
        ("x" * 40, ["x" * 32, "x" * 30 + "-2", "x" * 30 + "-3"]),
    ],
)
def test_labels_are_made_of_the_definitions_name(definition: str, labels: list[str]) -> None:
    assert list(islice(label_candidates(definition), 3)) == labels


@pytest.mark.parametrize("definition", ["scout", "Ä" * 50, "a" * 40, "-", ""])
def test_every_candidate_is_a_label_and_they_end_at_999(definition: str) -> None:
    labels = list(label_candidates(definition))
    assert all(map(is_label, labels))
    assert len(set(labels)) == 999
    assert labels[-1].endswith("-999")
