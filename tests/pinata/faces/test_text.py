"""What is printed is safe on any terminal and pleasant on a narrow one."""

import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from engine.core.outcome import LOST_REASON
from pinata.faces.text import (
    changes_lines,
    doctor_lines,
    evidence_lines,
    integration_lines,
    notice_lines,
    outline_lines,
    rollback_lines,
    run_lines,
    task_lines,
    tool_lines,
    transcript_lines,
    verification_lines,
    visible,
)
from worktrees.journal import JournalState

pytestmark = pytest.mark.smoke

HOSTILE = "\x1b[2Ja\r\nb\x07\u202ec\x9b1m\ud800\x00"


def summary(**fields: Any) -> dict[str, Any]:
    return {"id": "fix", "agent": "builder", "status": "succeeded", "summary": "done"} | fields


def answer(*tasks: dict[str, Any], **fields: object) -> dict[str, Any]:
    return {
        "run": "0123456789abcdef",
        "status": "succeeded",
        "counts": {"succeeded": len(tasks)},
        "tasks": list(tasks),
        "elapsedMs": 1500,
        "tokens": 12,
        "costUsd": 0.25,
    } | fields


@given(st.text())
def test_what_others_say_stays_on_its_line_and_cannot_steer_a_terminal(said: str) -> None:
    shown = visible(said)
    assert all(0x20 <= ord(one) < 0x7F or ord(one) >= 0xA0 for one in shown)
    assert not set(shown) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def test_hostile_text_anywhere_in_an_answer_is_shown_instead_of_obeyed() -> None:
    task = summary(
        status="failed",
        reason=HOSTILE,
        summary=HOSTILE,
        brief=HOSTILE,
        changedFiles=[HOSTILE],
        findings=[{"severity": "low", "message": HOSTILE}],
        blockers=[HOSTILE],
        notices=[HOSTILE],
    )
    check = {"id": "t", "passed": False, "reason": HOSTILE, "ms": 1}
    receipt = {
        "id": 1,
        "status": "source_changed",
        "differingPaths": [HOSTILE],
        "noChecksReason": HOSTILE,
    }
    files = [{"status": "M", "outcome": "edited", "path": HOSTILE}]
    applied = {
        "run": "ab",
        "status": "verified",
        "files": files,
        "checks": [check],
        "receipt": receipt,
    }
    finding = {"what": "repository", "ok": False, "says": HOSTILE}
    lines = [
        *run_lines(answer(task, notices=[HOSTILE], reason=HOSTILE)),
        *integration_lines(applied),
        *rollback_lines(applied),
        *doctor_lines({"findings": [finding]}),
        *transcript_lines({"excerpt": "safe already", "path": HOSTILE}),
    ]
    assert len(lines) > 10
    assert not [line for line in lines if set(line) & set("\x1b\r\n\x07\u202e\x9b\ud800\x00")]


def test_summary_of_a_run_fits_the_width_and_its_tasks_stand_in_columns() -> None:
    long = "word " * 300
    lines = list(
        run_lines(answer(summary(brief=long, reason=long), summary(id="review-fix")), width=60)
    )
    assert max(map(len, lines)) <= 60
    columns = [line.index("succeeded") for line in lines if line.startswith("  ✓")]
    assert columns == [16, 16]
    assert sum(line.endswith("…") for line in lines) == 2
    assert len(lines) < 16


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        ({"task": "fix"}, "fix"),
        ({"kind": "uncommitted", "ref": "HEAD"}, "the uncommitted changes against HEAD"),
        ({"kind": "branch", "ref": "main"}, "the changes since main"),
        ({"kind": "pull-request", "ref": "main", "pr": {"number": 7}}, "pull request 7"),
    ],
)
def test_verdict_names_what_it_is_about(target: dict[str, Any], shown: str) -> None:
    review = {"target": target, "current": True}
    lines = run_lines(answer(summary(id="check", verdict="approve", review=review)))
    assert f"      verdict: approve on {shown} (current)" in lines


def test_whole_answer_is_shown() -> None:
    review = {"target": {"task": "fix"}, "current": False}
    lines = list(
        run_lines(
            answer(
                summary(engineChecks={"passed": 1, "failed": 0, "notRun": 2}),
                summary(id="check", verdict="approve", review=review, status="cancelled"),
                nextOffset=2,
                notices=["mind the gap"],
                verification={"id": 3, "status": "verified", "freshness": "historical"},
                evidence={"ref": "refs/pinata/0/evidence", "id": "e" * 40},
                costUsd=None,
                status="failed",
                reason="1 of 2 tasks did not succeed",
            )
        )
    )
    assert lines == [
        "run 01234567 failed (2 succeeded)",
        "      reason: 1 of 2 tasks did not succeed",
        "  ✓ fix    succeeded (builder)",
        "      summary: done",
        "      checks: 1 passed, 0 failed, 2 not run",
        "  ✗ check  cancelled (builder)",
        "      summary: done",
        "      verdict: approve on fix (stale)",
        "  more tasks: --offset 2",
        "notice: mind the gap",
        "destination: verified (receipt 3, historical)",
        f"evidence: {'e' * 40}",
        "1.5 s, 12 tokens, unknown cost",
    ]


def judged(of: str | None, status: str) -> dict[str, Any]:
    target = {"kind": "uncommitted", "ref": "HEAD"} if of is None else {"task": of}
    return summary(id=f"by-{of}", status=status, review={"target": target, "current": True})


def mending(*tasks: dict[str, Any], status: str = "failed") -> list[str]:
    """Return the lines that say what can be repaired."""
    return [line for line in run_lines(answer(*tasks, status=status)) if "mended" in line]


def test_a_rejected_builder_is_named_once_as_one_to_have_mended() -> None:
    tasks = [
        summary(),
        judged("fix", "rejected"),
        judged("fix", "rejected"),
        judged("other", "succeeded"),
        judged(None, "rejected"),
    ]
    line = "to have it mended: pinata repair 0123456789abcdef fix --feedback TEXT"
    assert mending(*tasks) == [line]


def test_a_builder_that_failed_with_a_captured_change_can_be_mended_too() -> None:
    failed = summary(status="failed", artifact={"attempt": 1}, reason="check unit failed")
    reader = summary(id="look", status="failed", reason="the model failed")
    line = "to have it mended: pinata repair 0123456789abcdef fix --feedback TEXT"
    assert mending(failed, reader) == [line]


@pytest.mark.parametrize("status", ["running", "cancelled", "succeeded"])
def test_nothing_is_to_be_mended_in_a_run_that_did_not_fail(status: str) -> None:
    failed = summary(status="failed", artifact={"attempt": 1}, reason="check unit failed")
    assert mending(failed, status=status) == []


@pytest.mark.parametrize(
    ("status", "reason", "is_told"),
    [("failed", LOST_REASON, True), ("cancelled", LOST_REASON, False), ("failed", "no", False)],
    ids=["lost", "lost before the run was cancelled", "cancelled by somebody"],
)
def test_what_was_lost_is_told_with_the_command_that_starts_it_again(
    status: str, reason: str, *, is_told: bool
) -> None:
    tasks = [summary(id="done"), summary(status="cancelled", reason=reason)]
    line = "to start again what was lost: pinata rerun 0123456789abcdef"
    assert (line in run_lines(answer(*tasks, status=status))) == is_told


@pytest.mark.parametrize("state", JournalState, ids=lambda state: state.value)
def test_every_state_of_an_integration_is_said_in_words(state: JournalState) -> None:
    lines = list(run_lines(answer(summary(), integration=state.value)))
    (said,) = [line for line in lines if line.startswith("checkout: ")]
    run = {"run": "ab" * 8, "startedAt": 0, "taskCount": 1, "status": "succeeded"}
    (row,) = outline_lines({"runs": [{**run, "integration": state.value}]})
    assert row.endswith("1 task  " + said.removeprefix("checkout: "))


def test_answer_without_a_run_is_its_message() -> None:
    assert list(run_lines({"tasks": [], "message": "there are no runs yet"})) == [
        "there are no runs yet"
    ]
    assert list(transcript_lines({"message": "nothing yet"})) == ["nothing yet"]


def test_one_task_is_shown_as_in_the_whole() -> None:
    assert list(task_lines(summary())) == [
        "  ✓ fix  succeeded (builder)",
        "      summary: done",
    ]


def test_task_that_did_not_succeed_says_where_to_find_out_why() -> None:
    task = summary(
        status="failed",
        engineChecks={"passed": 0, "failed": 2, "notRun": 0},
        failedChecks=[{"id": "quiet"}, {"id": "t", "stdout": "/l/t.out", "stderr": "/l/t\x1b.err"}],
        usage={"toolCalls": 9, "refusedCalls": 2},
        transcript="/a/folder with a long name/fix.1.jsonl",
    )
    shown = [
        "  ✗ fix  failed (builder)",
        "      summary: done",
        "      checks: 0 passed, 2 failed",
        "      stdout of t: /l/t.out",
        "      stderr of t: /l/t\\x1b.err",
        "      tool calls: 2 of 9 were refused or failed",
        "      transcript: /a/folder with a long name/fix.1.jsonl",
    ]
    assert list(task_lines(task, 48)) == shown
    task["usage"] = {"toolCalls": 9}
    assert list(task_lines(task, 48)) == [*shown[:5], shown[6]]


def test_notices_are_wrapped_between_words_and_shown_whole() -> None:
    path = "/a/path-that-is-longer-than-the-screen/" + "x" * 40
    said = f"{'word ' * 20}{path} {'word ' * 100}".strip()
    lines = list(notice_lines({"notices": [said]}, 50))
    assert lines[0].startswith("notice: word")
    assert all(line.startswith(" " * 8) for line in lines[1:])
    assert [line for line in lines if len(line) > 50] == [" " * 8 + path]
    assert " ".join(line.strip() for line in lines) == f"notice: {said}"


def test_integration_shows_files_checks_and_what_is_not_as_approved() -> None:
    check = {"id": "t", "passed": True, "reason": None, "ms": 5}
    receipt = {"id": 2, "status": "verified", "differingPaths": ["b"]}
    shown = integration_lines(
        {
            "run": "0123456789abcdef",
            "status": "verified",
            "files": [{"status": "M", "path": "a"}],
            "checks": [check],
            "receipt": receipt,
        }
    )
    assert list(shown) == [
        "run 01234567 verified",
        "  M a",
        "  check t passed (5 ms)",
        "  not as approved: b",
        "  receipt 2",
    ]


def test_verification_shows_what_ran_what_did_not_and_what_differs() -> None:
    shown = verification_lines(
        {
            "run": "0123456789abcdef",
            "status": "source_changed",
            "application": "different",
            "checks": [{"id": "t", "passed": False, "reason": "exit code 3", "ms": 5}],
            "omitted": ["later"],
            "differingPaths": ["b\x1b[1m"],
            "origin": "verify",
            "noChecksReason": "why not",
            "notices": ["mind the gap"],
            "id": 2,
        }
    )
    assert list(shown) == [
        "run 01234567 source_changed, different",
        "  check t failed: exit code 3 (5 ms)",
        "  check later not run",
        "  the checkout changed while the checks ran",
        "  not applied yet, or edited since: b\\x1b[1m",
        "  no checks: why not",
        "  receipt 2",
        "notice: mind the gap",
    ]


def test_evidence_shows_faults_differences_and_what_was_not_run() -> None:
    answer = {
        "evidence": "e" * 40,
        "pinned": False,
        "status": "not_run",
        "application": "different",
        "faults": [],
        "differingPaths": ["b\x1b[1m"],
        "checks": [{"id": "t\x07", "passed": True, "reason": None, "ms": 5}],
        "omitted": ["later"],
    }
    assert list(evidence_lines(answer)) == [
        "evidence eeeeeeee (nothing pins it): not_run, different",
        "  not as approved: b\\x1b[1m",
        "  check t\\x07 passed (5 ms)",
        "  check later not run",
        "to run them: give its full id, --expect ID, or --run-checks",
    ]
    assert not any("to run" in line for line in evidence_lines({**answer, "pinned": True}))
    faulty = {**answer, "pinned": True, "status": "faulty", "faults": ["a.json was bent"]}
    del faulty["application"], faulty["differingPaths"]
    assert list(evidence_lines(faulty))[:2] == ["evidence eeeeeeee: faulty", "  a.json was bent"]


def log(path: str, size: int) -> dict[str, Any]:
    return {"path": path, "bytes": size, "sha256": "0" * 64}


FAILING = {
    "id": "t",
    "passed": False,
    "reason": "exit code 3",
    "ms": 5,
    "stdout": log("/logs/a\x1b.stdout", 1),
    "stderr": log("/logs/a.stderr", 0),
}
RECEIPT = {"id": 1, "status": "verification_failed", "differingPaths": []}


def test_failed_verification_of_an_integration_says_where_to_look_and_how_to_take_it_back() -> None:
    shown = integration_lines(
        {
            "run": "0123456789abcdef",
            "status": "verification_failed",
            "files": [],
            "checks": [FAILING],
            "receipt": RECEIPT,
        }
    )
    assert list(shown) == [
        "run 01234567 verification_failed",
        "  check t failed: exit code 3 (5 ms)",
        "      stdout of t: /logs/a\\x1b.stdout",
        "  receipt 1",
        "to take it back: pinata rollback 0123456789abcdef --confirm",
    ]


def test_failed_verification_of_a_destination_says_where_to_look() -> None:
    shown = verification_lines(
        {"run": "ab", "application": "exact", "checks": [FAILING], "omitted": [], **RECEIPT}
    )
    assert list(shown) == [
        "run ab verification_failed, exact",
        "  check t failed: exit code 3 (5 ms)",
        "      stdout of t: /logs/a\\x1b.stdout",
        "  receipt 1",
    ]


def test_hand_off_shows_patches_approvals_and_what_can_never_go_in() -> None:
    shown = changes_lines(
        {
            "run": "0123456789abcdef",
            "handoff": "f" * 64,
            "path": "/h/manifest.json",
            "builders": [
                {
                    "task": "fix",
                    "changes": [{"status": "A", "path": "link"}],
                    "patch": {"path": "/h/fix.patch"},
                    "reviews": [{"task": "one"}, {"task": "two"}],
                    "refusals": ["link is a symbolic link"],
                }
            ],
        }
    )
    assert list(shown) == [
        "run 01234567 hand-off ffffffff",
        "  fix (approved by one, two)",
        "    A link",
        "    patch: /h/fix.patch",
        "    never integrated: link is a symbolic link",
        "  manifest: /h/manifest.json",
    ]


def test_runs_are_listed_with_time_and_status_and_damaged_ones_with_their_damage() -> None:
    whole = {"run": "0" * 16, "status": "failed", "startedAt": 1_000, "taskCount": 1}
    assert list(outline_lines({"runs": []})) == ["there are no runs yet"]
    first, second = outline_lines({"runs": [whole, {"run": "1" * 16, "error": "it is damaged"}]})
    assert re.fullmatch(r"00000000  19(69|70)-\d\d-\d\d \d\d:\d\d  failed     1 task", first)
    assert second == "11111111  it is damaged"


def test_tools_are_shown_wrapped() -> None:
    lines = list(tool_lines([{"name": "pinata_x", "description": "word " * 30}], width=40))
    assert lines[0] == "pinata_x"
    assert all(line.startswith("  word") and len(line) <= 40 for line in lines[1:])
