import json
from collections.abc import Mapping

import pytest

from agents.submission import (
    CitedSource,
    ClaimedCheck,
    Finding,
    Submission,
    SubmissionRules,
    check_submission,
    decode_submission,
    encode_submission,
    settle,
    submit_declaration,
)
from engine.core.errors import CorruptionError
from engine.core.ids import Fingerprint, TaskId
from engine.core.outcome import Status, Verdict
from engine.core.spec import Kind
from tests.support.agents import result

F = Fingerprint("a" * 64)
READER = SubmissionRules(Kind.READER)
WRITER = SubmissionRules(Kind.WRITER)
REVIEWER = SubmissionRules(Kind.REVIEWER, TaskId("fix"), F)
LIVE_REVIEWER = SubmissionRules(Kind.REVIEWER, None, F)
SOURCE = {"url": "https://a.example/x", "title": "t", "supports": "s", "applicability": "a"}
APPROVE = {"verdict": "approve"}
REJECT = {"verdict": "changes_requested"}


def accepted(data: object, rules: SubmissionRules) -> Submission:
    judged = check_submission(data, rules)
    assert isinstance(judged, Submission), judged
    return judged


def faults(data: object, rules: SubmissionRules) -> tuple[str, ...]:
    judged = check_submission(data, rules)
    assert not isinstance(judged, Submission)
    return judged


def finding(severity: str) -> dict[str, str]:
    return {"severity": severity, "message": "m", "evidence": "a.py:1"}


def test_a_complete_result_of_each_kind_is_accepted() -> None:
    check = {"name": "make test", "status": "passed", "detail": ""}
    reader = accepted(
        result(brief="so it is", sources=[SOURCE], checks=[check], findings=[finding("high")]),
        READER,
    )
    assert reader == Submission(
        Status.SUCCEEDED,
        "all is well",
        checks=(ClaimedCheck("make test", "passed", ""),),
        findings=(Finding("high", "m", "a.py:1"),),
        brief="so it is",
        sources=(CitedSource("https://a.example/x", "t", "s", "a"),),
    )
    writer = accepted(result(changedFiles=["src/a.py", '"a\\nb"', "..notes/x"]), WRITER)
    assert writer.changed_files == ("src/a.py", '"a\\nb"', "..notes/x")
    reviewer = accepted(result(review=APPROVE), REVIEWER)
    assert (reviewer.verdict, reviewer.target, reviewer.fingerprint) == (
        Verdict.APPROVE,
        TaskId("fix"),
        F,
    )


@pytest.mark.parametrize(
    ("changes", "rules", "fault"),
    [
        (
            {"status": "done"},
            WRITER,
            'status: "done" is not one of the known values; it must be succ',
        ),
        ({"summary": " "}, WRITER, 'summary: " " is blank; it must be text of one or two sent'),
        ({"summary": "a\0"}, WRITER, 'summary: "a\\u0000" holds a NUL character'),
        ({"summary": "a" * 64_001}, WRITER, 'summary: "aaa'),
        ({"extra": 1}, WRITER, 'unknown field "extra"; the fields are status, summary, changedFi'),
        ({"brief": "x"}, WRITER, 'unknown field "brief"'),
        (
            {"brief": {"text": "x"}},
            READER,
            'brief: {"text": "x"} is not text; it must be your answer',
        ),
        ({"blockers": ["no disk"], "brief": "x"}, READER, "blockers: a succeeded result has none"),
        ({"changedFiles": ["a"], "brief": "x"}, READER, "changedFiles: a reader changes nothing"),
        ({"changedFiles": ["a"], "review": APPROVE}, REVIEWER, "changedFiles: a reviewer changes"),
        ({"changedFiles": ["/a"]}, WRITER, 'changedFiles[0]: "/a" is absolute; write it relat'),
        ({"changedFiles": ["a", "../b"]}, WRITER, 'changedFiles[1]: "../b" holds the segment'),
        ({"changedFiles": [".git/x"]}, WRITER, 'changedFiles[0]: ".git/x" leads into a .git'),
        ({"changedFiles": ['"../a"']}, WRITER, 'changedFiles[0]: "\\"../a\\"" holds the segment'),
        ({"changedFiles": ['"a\\q"']}, WRITER, 'changedFiles[0]: "\\"a\\\\q\\"" is not quoted as'),
        ({"changedFiles": ["a", '"a"']}, WRITER, 'changedFiles[1]: "\\"a\\"" stands there twice'),
        ({"findings": [finding("bad")]}, WRITER, 'findings[0].severity: "bad" is not one of the'),
        ({"findings": [{"severity": "low"}]}, WRITER, "findings[0].message is missing; it must"),
        ({"checks": [{"name": "a", "status": "ok", "detail": ""}]}, WRITER, "checks[0].status: "),
        ({}, READER, "brief: is missing; a succeeded reader answers the question there"),
        ({"brief": " "}, READER, "brief: is missing"),
        ({"brief": "x", "sources": [SOURCE | {"url": "file:///etc"}]}, READER, "sources[0].url: "),
        ({"brief": "x", "sources": [SOURCE | {"url": "https://[x"}]}, READER, "sources[0].url: "),
        (
            {"brief": "x", "sources": [SOURCE | {"url": "https://me:pw@a.example"}]},
            READER,
            "sources[0].url: holds credentials; give the address without them",
        ),
        ({}, REVIEWER, "review: is missing; a succeeded reviewer hands in a verdict"),
        ({"review": {"verdict": "yes"}}, REVIEWER, 'review.verdict: "yes" is not one of the'),
        (
            {"review": APPROVE | {"taskId": "other"}},
            REVIEWER,
            'review.taskId: "other" is not what you review; it is fix',
        ),
        (
            {"review": APPROVE | {"taskId": "fix"}},
            LIVE_REVIEWER,
            'review.taskId: "fix" is not what you review; leave it out',
        ),
        (
            {"review": REJECT | {"fingerprint": "b"}},
            REVIEWER,
            f'review.fingerprint: "b" is not that of your target; it is {F}',
        ),
        (
            {"review": APPROVE | {"fingerprint": "b"}},
            SubmissionRules(Kind.REVIEWER),
            'review.fingerprint: "b" is not that of your target; leave it out',
        ),
        (
            {"review": APPROVE, "findings": [finding("low"), finding("medium")]},
            REVIEWER,
            "review.verdict: approve does not go with findings[1], which is medium; request",
        ),
    ],
)
def test_each_broken_rule_is_named_with_its_field(
    changes: Mapping[str, object], rules: SubmissionRules, fault: str
) -> None:
    assert faults(result(**changes), rules)[0].startswith(fault)


def test_all_faults_are_named_at_once() -> None:
    assert len(faults({}, WRITER)) == 6
    assert len(faults(result(changedFiles=["/a", "b", "b"]), WRITER)) == 2


@pytest.mark.parametrize("data", [None, [], "x", 1, float("nan"), {1: 2}])
def test_what_is_no_result_at_all_is_refused(data: object) -> None:
    assert faults(data, WRITER)


def test_half_a_character_is_refused() -> None:
    assert faults(result(summary="\ud800"), WRITER)
    assert faults({**result(), "\ud800": 1}, WRITER)


def test_a_result_that_is_far_too_large_is_refused() -> None:
    large = [{"severity": "low", "message": "m" * 60_000, "evidence": ""}] * 80
    assert faults(result(findings=large), WRITER) == (
        "the result is larger than 4 MiB; shorten it",
    )


def test_a_definition_may_demand_a_source() -> None:
    rules = SubmissionRules(Kind.READER, require_sources=True)
    assert faults(result(brief="x"), rules)[0].startswith("sources: name at least one")
    assert accepted(result(brief="x", sources=[SOURCE]), rules).sources


@pytest.mark.parametrize("severity", ["low", "info"])
def test_small_findings_may_stay_beside_an_approval(severity: str) -> None:
    submission = accepted(result(review=APPROVE, findings=[finding(severity)]), REVIEWER)
    assert settle(submission) == (Status.SUCCEEDED, None)


def test_bindings_may_be_repeated_and_are_filled_in_when_left_out() -> None:
    repeated = accepted(result(review=APPROVE | {"taskId": "fix", "fingerprint": F}), REVIEWER)
    assert repeated == accepted(result(review=APPROVE), REVIEWER)
    assert encode_submission(repeated)["review"] == {
        "verdict": "approve",
        "taskId": "fix",
        "fingerprint": F,
    }


@pytest.mark.parametrize("status", ["failed", "blocked", "cancelled"])
def test_rules_about_success_do_not_bind_other_results(status: str) -> None:
    for rules in (READER, WRITER, REVIEWER):
        submission = accepted(result(status=status, blockers=["no disk", "no net"]), rules)
        assert settle(submission) == (Status(status), "no disk; no net")


@pytest.mark.parametrize(
    ("status", "review", "expected"),
    [
        ("succeeded", APPROVE, (Status.SUCCEEDED, None)),
        ("succeeded", REJECT, (Status.REJECTED, "changes requested: all is well")),
        ("failed", REJECT, (Status.REJECTED, "changes requested: all is well")),
        ("failed", APPROVE, (Status.FAILED, "all is well")),
        ("blocked", REJECT, (Status.BLOCKED, "all is well")),
    ],
)
def test_the_verdict_decides_what_a_review_means(
    status: str, review: dict[str, str], expected: tuple[Status, str | None]
) -> None:
    assert settle(accepted(result(status=status, review=review), REVIEWER)) == expected


@pytest.mark.parametrize(
    ("data", "rules"),
    [
        (result(brief="b", sources=[SOURCE], findings=[finding("info")]), READER),
        (result(changedFiles=["a"], status="failed"), WRITER),
        (result(review=REJECT), REVIEWER),
        (result(review=APPROVE), LIVE_REVIEWER),
        (result(status="blocked", blockers=["x"]), REVIEWER),
    ],
)
def test_a_saved_submission_is_read_back_as_it_was(
    data: Mapping[str, object], rules: SubmissionRules
) -> None:
    submission = accepted(data, rules)
    stored = json.loads(json.dumps(encode_submission(submission)))
    assert decode_submission(stored, rules.kind) == submission


def test_a_damaged_saved_submission_is_refused() -> None:
    with pytest.raises(CorruptionError, match="a saved result is damaged: status is missing"):
        decode_submission({"summary": "x"}, Kind.WRITER)


def test_the_form_shows_each_kind_its_own_fields() -> None:
    def fields(kind: Kind) -> set[str]:
        properties = submit_declaration(kind).parameters["properties"]
        assert isinstance(properties, dict)
        return set(properties)

    common = {"status", "summary", "changedFiles", "checks", "findings", "blockers"}
    assert fields(Kind.WRITER) == common
    assert fields(Kind.READER) == common | {"brief", "sources"}
    assert fields(Kind.REVIEWER) == common | {"review"}
    assert set(str(submit_declaration(Kind.READER).parameters["required"]).split("'")) >= common
