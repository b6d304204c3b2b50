import json

import pytest
from hypothesis import given, strategies as st

from agents.dependency import (
    OBJECT_LIMIT_BYTES,
    TOTAL_LIMIT_BYTES,
    Dependency,
    render_dependencies,
)
from agents.submission import CitedSource, Finding, Submission
from engine.core.ids import TaskId
from engine.core.outcome import Status, Verdict


def dependency(submission: Submission | None = None, name: str = "look") -> Dependency:
    return Dependency(TaskId(name), "scout", Status.SUCCEEDED, "/runs/look.json", submission)


def test_a_small_result_is_shown_whole_in_reading_order() -> None:
    submission = Submission(
        Status.SUCCEEDED,
        "found it",
        brief="in a.py",
        findings=(Finding("low", "m", "e"),),
        sources=(CitedSource("https://a.example", "t", "s", "a"),),
        blockers=("none really",),
        changed_files=("claimed.py",),
        verdict=Verdict.APPROVE,
    )
    (line,) = render_dependencies([dependency(submission)])
    assert line == (
        '{"task":"look","agent":"scout","status":"succeeded","summary":"found it",'
        '"resultPath":"/runs/look.json","verdict":"approve","brief":"in a.py",'
        '"findings":[{"severity":"low","message":"m","evidence":"e"}],'
        '"sources":[{"url":"https://a.example","title":"t","supports":"s","applicability":"a"}],'
        '"blockers":["none really"],"changedFiles":["claimed.py"]}'
    )


def test_what_the_engine_found_takes_the_place_of_the_claim() -> None:
    claimed = Submission(Status.SUCCEEDED, "s", changed_files=("claimed.py",))
    found = Dependency(
        TaskId("fix"), "builder", Status.SUCCEEDED, None, claimed, changed_files=("found.py",)
    )
    assert json.loads(render_dependencies([found])[0]) == {
        "task": "fix",
        "agent": "builder",
        "status": "succeeded",
        "summary": "s",
        "changedFiles": ["found.py"],
    }


def test_a_predecessor_without_a_result_shows_its_reason() -> None:
    lost = Dependency(TaskId("x"), "scout", Status.FAILED, None, summary="no result")
    assert json.loads(render_dependencies([lost])[0])["summary"] == "no result"


def test_a_long_brief_is_cut_and_everything_else_kept() -> None:
    submission = Submission(
        Status.SUCCEEDED, "s", brief="ü€\U0001f600\n" * 40_000, findings=(Finding("low", "m", "e"),)
    )
    (line,) = render_dependencies([dependency(submission)])
    shown = json.loads(line)
    assert OBJECT_LIMIT_BYTES - 8 <= len(line.encode()) <= OBJECT_LIMIT_BYTES
    assert submission.brief is not None
    assert submission.brief.startswith(shown["brief"])
    assert (shown["truncated"], shown["resultPath"]) == (True, "/runs/look.json")
    assert shown["findings"] == [{"severity": "low", "message": "m", "evidence": "e"}]


def test_the_longest_text_is_shortened_first() -> None:
    findings = tuple(Finding("low", "m" * 1000, "e") for _ in range(30))
    submission = Submission(Status.SUCCEEDED, "s", brief="b" * 2_000, findings=findings)
    shown = json.loads(render_dependencies([dependency(submission)])[0])
    assert shown["brief"] == "b" * 2_000
    assert 0 < len(shown["findings"]) < 30
    assert shown["findings"][0]["message"] == "m" * 400


def test_when_all_texts_are_long_all_give_way() -> None:
    submission = Submission(
        Status.SUCCEEDED,
        "s" * 60_000,
        brief="b" * 60_000,
        findings=tuple(Finding("low", "m" * 9_000, "e" * 9_000) for _ in range(90)),
        blockers=tuple("k" * 9_000 for _ in range(90)),
        changed_files=tuple(f"{n:05}" for n in range(50_000)),
    )
    (line,) = render_dependencies([dependency(submission)])
    assert len(line.encode()) <= OBJECT_LIMIT_BYTES
    assert json.loads(line)["status"] == "succeeded"


def test_many_share_the_room_evenly_and_short_ones_stay_whole() -> None:
    long = [dependency(Submission(Status.SUCCEEDED, "s", brief="b" * 9_000))] * 12
    short = [dependency(Submission(Status.SUCCEEDED, "s", brief="short"))] * 3
    lines = render_dependencies([*short, *long])
    sizes = [len(line.encode()) for line in lines]
    assert sum(sizes) + len(lines) <= TOTAL_LIMIT_BYTES
    assert sum(sizes) + len(lines) > TOTAL_LIMIT_BYTES - 32
    assert len(set(sizes[3:])) == 1
    assert [json.loads(line)["brief"] for line in lines[:3]] == ["short"] * 3


def test_more_than_can_be_shown_at_all_are_left_out_from_the_end() -> None:
    many = [
        dependency(Submission(Status.SUCCEEDED, "s", brief="b" * 900), f"t{n}") for n in range(900)
    ]
    lines = render_dependencies(many)
    assert sum(len(line.encode()) + 1 for line in lines) <= TOTAL_LIMIT_BYTES
    assert 0 < len(lines) < 900
    tasks = [json.loads(line)["task"] for line in lines]
    assert tasks == [f"t{n}" for n in range(len(lines))]


def test_a_text_that_cannot_be_utf8_does_not_break_a_brief() -> None:
    lost = Dependency(TaskId("x"), "scout", Status.FAILED, "/odd/\udcff", summary="s")
    assert json.loads(render_dependencies([lost])[0])["resultPath"] == "/odd/?"


@pytest.mark.parametrize("count", [0, 1, 9])
@given(text=st.text(max_size=400), repeat=st.integers(0, 200))
def test_lines_are_always_json_of_bounded_size(count: int, text: str, repeat: int) -> None:
    submission = Submission(Status.SUCCEEDED, text, brief=text * repeat, blockers=(text,) * 3)
    lines = render_dependencies([dependency(submission)] * count)
    assert len(lines) == count
    assert all(len(line.encode()) <= OBJECT_LIMIT_BYTES for line in lines)
    assert sum(len(line.encode()) + 1 for line in lines) <= TOTAL_LIMIT_BYTES
    for line in lines:
        shown = json.loads(line)
        assert (shown["task"], shown["status"]) == ("look", "succeeded")
        assert (text * repeat).startswith(shown.get("brief", ""))
