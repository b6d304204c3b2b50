"""What a verification came to is judged strictly and kept for ever."""

from dataclasses import replace
from pathlib import Path

import pytest

from checks.proof import CheckProof, SavedLog
from engine.core.errors import CorruptionError
from engine.core.ids import CommitId, TreeId
from pinata.work.receipt import Receipt, ReceiptFolder, ReceiptStatus, SavedState, answer, judge
from tests.support.results import proof
from worktrees.state import StateTriple

STATE = StateTriple(CommitId("c" * 40), TreeId("d" * 40), "e" * 64)
MOVED = replace(STATE, content_tree=TreeId("f" * 40))


def receipt(id_: int = 1, **fields: object) -> Receipt:
    state = SavedState.of(STATE)
    made = Receipt(
        id=id_,
        run="0123456789abcdef",
        at_ms=7,
        status="verified",
        before=state,
        after=state,
        checks=(proof(),),
        omitted=(),
        no_checks_reason=None,
        differing_paths=(),
        origin="integrate",
    )
    return replace(made, **fields)  # type: ignore[arg-type]  # any field of a receipt


@pytest.mark.parametrize(
    ("after", "proofs", "planned", "status"),
    [
        (STATE, [proof("a"), proof("b")], 2, "verified"),
        (STATE, [proof("a"), proof("b", code=1)], 2, "verification_failed"),
        (STATE, [proof("a")], 2, "verification_failed"),
        (STATE, [], 2, "verification_failed"),
        (STATE, [proof("a", reason="timed out")], 1, "verification_failed"),
        (STATE, [], 0, "not_run"),
        (MOVED, [proof("a")], 1, "source_changed"),
        (MOVED, [], 0, "source_changed"),
    ],
)
def test_verified_means_that_all_planned_checks_passed_on_one_state(
    after: StateTriple, proofs: list[CheckProof], planned: int, status: ReceiptStatus
) -> None:
    assert judge(STATE, after, proofs, planned) == status


def test_receipt_reads_back_as_it_was_saved(tmp_path: Path) -> None:
    folder = ReceiptFolder(tmp_path / "receipts")
    log = SavedLog("/logs/test.out", 3, "a" * 64)
    one = receipt(checks=(replace(proof(code=2), stdout=log),), omitted=("late",))
    assert folder.latest() is None
    assert folder.next_id() == 1
    folder.save(one)
    assert folder.latest() == one


def test_number_of_a_receipt_is_used_once_even_when_only_its_logs_are_there(
    tmp_path: Path,
) -> None:
    folder = ReceiptFolder(tmp_path / "receipts")
    for id_ in (folder.next_id(), folder.next_id() + 8):
        folder.save(receipt(id_))
    assert folder.next_id() == 10
    folder.logs(10).mkdir()
    assert folder.next_id() == 11
    (tmp_path / "receipts" / "notes.txt").touch()
    latest = folder.latest()
    assert latest is not None
    assert latest.id == 9


def test_damaged_receipt_is_reported_by_its_path(tmp_path: Path) -> None:
    folder = ReceiptFolder(tmp_path / "receipts")
    folder.next_id()
    (tmp_path / "receipts" / "1.json").write_text('{"id": "one"}')
    with pytest.raises(CorruptionError, match=r"receipts/1\.json is damaged"):
        folder.latest()


def test_answer_says_what_was_seen_and_what_was_not() -> None:
    shown = answer(
        receipt(
            status="not_run",
            checks=(),
            omitted=("late",),
            no_checks_reason="there are none",
            differing_paths=("a.txt",),
            before=replace(SavedState.of(STATE), head=None),
        )
    )
    assert shown["application"] == "different"
    assert shown["differingPaths"] == ["a.txt"]
    assert shown["omitted"] == ["late"]
    assert shown["noChecksReason"] == "there are none"
    assert (shown["head"], shown["after"]["head"]) == ("unborn", "c" * 40)
    assert shown["reviewScope"] == "builder-artifacts-only"


def test_answer_shows_each_checks_command_end_and_logs() -> None:
    log = SavedLog("/logs/test.out", 3, "a" * 64)
    shown = answer(receipt(checks=(replace(proof(code=2), stdout=log, notes=("cut",)),)))
    assert "noChecksReason" not in shown
    (check,) = shown["checks"]
    assert check["reason"] == "exited with 2"
    assert check["stdout"] == {"path": "/logs/test.out", "bytes": 3, "sha256": "a" * 64}
    assert (check["stderr"], check["notes"]) == (None, ["cut"])
