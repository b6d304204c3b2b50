"""Summaries count the whole run and come in pages that can be read."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from checks.proof import SavedLog
from engine.core.ids import TaskId
from engine.core.outcome import Status, Verdict
from engine.core.spec import Kind, ReviewOf, RunSpec
from engine.core.view import UsageView
from pinata.work.result import SavedResult, Usage
from pinata.work.summary import (
    BRIEF_BYTES,
    PAGE_BYTES,
    TaskFacts,
    cut_text,
    page,
    status_counts,
    task_summary,
    totals,
)
from tests.support.jobs import task_spec
from tests.support.results import judged, proof, saved, written

pytestmark = pytest.mark.smoke


Results = dict[TaskId, SavedResult]


def scouts(count: int, **submission: object) -> tuple[RunSpec, Results]:
    """Return a run of `count` scouts that all handed in the same."""
    spec = RunSpec(tuple(task_spec(f"t-{number}") for number in range(count)))
    handed_in = {"summary": "done", **submission}
    return spec, {task.id: saved(task.id, submission=handed_in) for task in spec.tasks}


def all_well(spec: RunSpec) -> dict[TaskId, TaskFacts]:
    return {task.id: TaskFacts(Status.SUCCEEDED, None) for task in spec.tasks}


def pages(spec: RunSpec, results: Mapping[TaskId, SavedResult]) -> list[list[dict[str, Any]]]:
    """Follow the offsets from page to page."""
    found = []
    at: int | None = 0
    while at is not None:
        tasks, at = page(spec, all_well(spec), results, offset=at)
        found.append(tasks)
    return found


def size(tasks: list[dict[str, Any]]) -> int:
    return len(json.dumps(tasks, ensure_ascii=False).encode("utf-8", "replace"))


def summary_of(result: SavedResult, kind: Kind = Kind.READER) -> dict[str, Any]:
    task = task_spec(result.task, kind=kind)
    return task_summary(task, TaskFacts(result.status, result.reason), {result.id: result})


def test_hundred_and_fifty_tiny_tasks_make_pages_of_64_64_and_22() -> None:
    spec, results = scouts(150)
    found = pages(spec, results)
    assert [len(tasks) for tasks in found] == [64, 64, 22]
    assert [task["id"] for tasks in found for task in tasks] == [t.id for t in spec.tasks]
    assert status_counts(all_well(spec)) == {"succeeded": 150}


def test_long_briefs_make_pages_that_each_fit_and_together_show_all_once() -> None:
    spec, results = scouts(10, brief="ü" * (BRIEF_BYTES // 2))
    found = pages(spec, results)
    assert len(found) > 1
    assert all(size(tasks) <= PAGE_BYTES for tasks in found)
    assert [task["id"] for tasks in found for task in tasks] == [t.id for t in spec.tasks]
    assert not any("truncated" in task for tasks in found for task in tasks)


def test_page_is_empty_behind_the_last_task() -> None:
    spec, results = scouts(3)
    assert page(spec, all_well(spec), results, offset=3) == ([], None)
    assert page(spec, all_well(spec), results, offset=99) == ([], None)


def test_page_ends_at_its_limit() -> None:
    spec, results = scouts(3)
    tasks, at = page(spec, all_well(spec), results, offset=1, limit=1)
    assert ([task["id"] for task in tasks], at) == (["t-1"], 2)
    assert page(spec, all_well(spec), results, offset=2, limit=1)[1] is None


FINDING = {"severity": "low", "message": "m" * 500}


@pytest.mark.parametrize(
    "submission",
    [
        {"findings": [FINDING] * 500},
        {"summary": "\x01" * 64_000, "brief": "b" * 64_000},
        {"summary": '"' * 64_000, "findings": [FINDING] * 50},
        {"brief": "b" * 64_000, "blockers": ["ü" * 20_000] * 20, "findings": [FINDING] * 500},
        {"findings": [{"severity": "low", "message": "m" * 64_000}]},
    ],
    ids=["findings", "controls", "quotes", "everything", "one-finding"],
)
def test_task_that_alone_is_over_is_shortened_and_says_so(submission: dict[str, Any]) -> None:
    spec, results = scouts(2, **submission)
    found = pages(spec, results)
    assert all(size(tasks) <= PAGE_BYTES for tasks in found)
    shown = [(task["id"], task["truncated"]) for tasks in found for task in tasks]
    assert shown == [("t-0", True), ("t-1", True)]


def test_shortened_task_keeps_as_much_as_fits() -> None:
    spec, results = scouts(1, findings=[FINDING] * 500)
    ((task,),) = pages(spec, results)
    assert len(task["findings"]) > 50
    assert task["summary"] == "done"


def test_brief_over_its_limit_is_cut_and_the_summary_says_so() -> None:
    summary = summary_of(saved("look", submission={"summary": "s", "brief": "ü" * BRIEF_BYTES}))
    assert len(summary["brief"].encode()) <= BRIEF_BYTES
    assert summary["brief"].endswith("ü…")
    assert summary["truncated"] is True


@pytest.mark.parametrize(
    ("text", "limit", "cut"),
    [("short", 5, "short"), ("longer", 5, "lo…"), ("üüü", 5, "ü…"), ("\ud800", 9, "\ud800")],
)
def test_text_is_cut_between_characters(text: str, limit: int, cut: str) -> None:
    assert cut_text(text, limit) == cut


def test_checks_are_counted_by_the_engine_whatever_the_agent_claims() -> None:
    result = saved(
        "fix",
        Status.FAILED,
        reason="check two failed",
        submission={"summary": "all is well", "checks": [{"name": "x", "status": "passed"}] * 9},
        checks=(proof("one"), proof("two", code=1)),
        not_run=("three",),
    )
    summary = summary_of(result, Kind.WRITER)
    assert summary["engineChecks"] == {"passed": 1, "failed": 1, "notRun": 1}
    assert summary["reason"] == "check two failed"
    assert "checks" not in summary
    assert summary["failedChecks"] == [{"id": "two"}]


def test_logs_of_failed_checks_are_named_if_they_say_anything() -> None:
    said, silent = SavedLog("/logs/two.err", 9, "0"), SavedLog("/logs/two.out", 0, "0")
    two = replace(proof("two", code=1), stdout=silent, stderr=said)
    summary = summary_of(saved("fix", Status.FAILED, checks=(proof("one"), two)), Kind.WRITER)
    assert summary["failedChecks"] == [{"id": "two", "stderr": "/logs/two.err"}]


@pytest.mark.parametrize("status", [one for one in Status if one.is_final])
def test_conversation_is_named_where_somebody_may_ask_how_it_came_to_that(status: Status) -> None:
    usage = Usage(tool_calls=3, refused_calls=2)
    summary = summary_of(saved("look", status, transcript="/runs/look.jsonl", usage=usage))
    assert ("transcript" in summary) == (status is not Status.SUCCEEDED)
    assert (summary["usage"]["toolCalls"], summary["usage"]["refusedCalls"]) == (3, 2)
    assert "refusedCalls" not in summary_of(saved("look"))["usage"]


@pytest.mark.parametrize("status", [one for one in Status if one.is_final])
def test_reason_is_there_on_everything_that_did_not_succeed(status: Status) -> None:
    task = task_spec("look")
    summary = task_summary(task, TaskFacts(status, None), {})
    assert ("reason" in summary) == (status is not Status.SUCCEEDED)


def test_waiting_task_is_shown_without_anything_that_is_not_known() -> None:
    task = task_spec("look")
    summary = task_summary(task, TaskFacts(Status.QUEUED, None), {})
    assert summary == {
        "id": "look",
        "agent": "reader",
        "status": "queued",
        "summary": "",
        "usage": {"turns": 0, "toolCalls": 0, "tokens": 0, "costUsd": 0.0},
    }


@pytest.mark.parametrize(("is_partial", "cost"), [(False, 0.5), (True, None)])
def test_running_task_is_shown_with_what_it_used_so_far(
    *, is_partial: bool, cost: float | None
) -> None:
    task = task_spec("look")
    used = UsageView(2, 3, 40, 2, 0.5, cost_is_partial=is_partial)
    summary = task_summary(task, TaskFacts(Status.RUNNING, None, used), {})
    assert summary["usage"] == {"turns": 2, "toolCalls": 3, "tokens": 42, "costUsd": cost}


def test_change_and_verdict_are_what_the_engine_bound_together() -> None:
    fix, yes = TaskId("fix"), TaskId("yes")
    spec = RunSpec(
        (
            task_spec("fix", kind=Kind.WRITER, owns=("a",)),
            task_spec("yes", "fix", kind=Kind.REVIEWER, target=ReviewOf(fix)),
        )
    )
    results = {fix: written("fix", "a", "b"), yes: judged("yes", "fix")}
    writer, reviewer = page(spec, all_well(spec), results)[0]
    assert writer["changedFiles"] == ["a", "b"]
    assert writer["artifact"]["fingerprint"] == "f1"
    assert (reviewer["verdict"], reviewer["review"]["current"]) == ("approve", True)

    results[yes] = judged("yes", "fix", Verdict.APPROVE, "f0")
    assert page(spec, all_well(spec), results)[0][1]["review"]["current"] is False


def test_unverified_change_has_no_fingerprint_and_a_silent_review_no_verdict() -> None:
    writer = summary_of(written("fix", "a", fingerprint=None), Kind.WRITER)
    assert "fingerprint" not in writer["artifact"]
    fix = TaskId("fix")
    task = task_spec("no", "fix", kind=Kind.REVIEWER, target=ReviewOf(fix))
    result = judged("no", "fix", None)
    summary = task_summary(task, TaskFacts(Status.SUCCEEDED, None), {result.id: result})
    assert "verdict" not in summary
    assert summary["review"]["verdict"] is None


def test_notices_and_what_was_said_are_shown() -> None:
    said = {"summary": "s", "blockers": ["no key"], "sources": [{"url": "https://a.example"}]}
    summary = summary_of(saved("look", submission=said, notices=("mind the gap",)))
    assert summary["blockers"] == ["no key"]
    assert summary["sources"] == [{"url": "https://a.example"}]
    assert summary["notices"] == ["mind the gap"]


def test_cost_is_unknown_when_any_price_is() -> None:
    assert totals(UsageView(1, 1, 10, 5, 1.25)) == (1.25, 15)
    assert totals(UsageView(1, 1, 4, 2, 0.25, cost_is_partial=True)) == (None, 6)
    assert totals(UsageView()) == (0.0, 0)
