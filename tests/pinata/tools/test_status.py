"""The status tool takes exactly its fields and writes nothing."""

import json
from pathlib import Path

import pytest

from engine.core.errors import UsageError
from pinata.work.summary import BRIEF_BYTES, PAGE_BYTES
from tests.support.projects import Project, read, reports, scout, submits

REFUSED: list[tuple[dict[str, object], str]] = [
    ({"limit": 0}, "limit"),
    ({"limit": 65}, "limit"),
    ({"offset": -1}, "offset"),
    ({"limit": True}, "limit"),
    ({"limit": "5"}, "limit"),
    ({"limit": None}, "limit"),
    ({"run": None}, "run"),
    ({"run": ""}, "run"),
    ({"task": None}, "task"),
    ({"detail": "all"}, "detail"),
    ({"detail": "result"}, "detail"),
    ({"task": "look", "offset": 1}, "offset"),
    ({"task": "look", "limit": 1}, "limit"),
    ({"colour": "red"}, "colour"),
]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, {"a.txt": "one\n"})


@pytest.mark.parametrize(("arguments", "field"), REFUSED, ids=[str(r[0]) for r in REFUSED])
async def test_arguments_out_of_range_are_refused_by_field(
    project: Project, arguments: dict[str, object], field: str
) -> None:
    with pytest.raises(UsageError, match=field):
        await project.call("pinata_status", arguments)
    with pytest.raises(UsageError):
        await project.call("pinata_status", [])


async def test_there_may_be_no_runs(project: Project) -> None:
    answer = await project.call("pinata_status", {})
    assert (answer["taskCount"], answer["message"]) == (0, "there are no runs yet")
    assert project.runs == []


async def test_latest_run_is_shown_a_page_at_a_time(project: Project) -> None:
    tasks = [scout(f"t-{number}") for number in range(3)]
    await project.run([scout("first")], {"*": [reports()]})
    last = await project.run(tasks, {"*": [reports()]})
    page = await project.call("pinata_status", {"limit": 2})
    assert (page["run"], page["nextOffset"]) == (last["run"], 2)
    rest = await project.call("pinata_status", {"run": last["run"][:8], "offset": 2})
    assert "nextOffset" not in rest
    assert page["tasks"] + rest["tasks"] == last["tasks"]
    assert page["counts"] == rest["counts"] == {"succeeded": 3}
    beyond = await project.call("pinata_status", {"offset": 3})
    assert (beyond["tasks"], beyond.get("nextOffset")) == ([], None)


async def test_task_too_long_to_show_is_marked_and_its_whole_result_is_there(
    project: Project,
) -> None:
    finding = {"severity": "low", "message": "m" * 400, "evidence": "e"}
    answer = await project.run([scout("look")], {"look": [reports(findings=[finding] * 200)]})
    (task,) = answer["tasks"]
    assert task["truncated"] is True
    assert 0 < len(task["findings"]) < 200
    whole = await project.result(answer["run"], "look")
    assert len(whole["result"]["findings"]) == 200
    shown = await project.call("pinata_status", {"task": "look", "detail": "transcript"})
    assert "submit_result" in shown["excerpt"]
    assert "submit_result" in read(shown["path"])


async def test_unknown_task_is_refused_naming_those_there_are(project: Project) -> None:
    await project.run([scout("look")], {"look": [reports()]})
    with pytest.raises(UsageError, match='"nobody" is not a task of this run; it has look'):
        await project.call("pinata_status", {"task": "nobody"})


def damage(project: Project, run: str, name: str) -> Path:
    path = project.repo.root / ".git" / "pinata" / run / "results" / name
    path.write_bytes(path.read_bytes().replace(b"it is so", b"it is not"))
    return path


async def test_damaged_result_makes_its_task_uncertain_on_every_page(project: Project) -> None:
    before = await project.run([scout("a"), scout("b"), scout("c")], {"*": [reports()]})
    path = damage(project, before["run"], "b.1.json")
    pages = [await project.call("pinata_status", {"offset": at, "limit": 1}) for at in range(3)]
    for page in pages:
        assert page["counts"] == {"succeeded": 2, "uncertain": 1}
        assert (page["status"], page["costUsd"]) == ("failed", before["costUsd"])
        assert page["reason"] == "the saved results of b are missing or damaged"
    assert [task for page in (pages[0], pages[2]) for task in page["tasks"]] == [
        before["tasks"][0],
        before["tasks"][2],
    ]
    (task,) = pages[1]["tasks"]
    assert task == {
        "id": "b",
        "agent": "scout",
        "status": "uncertain",
        "summary": "",
        "reason": f"what it came to is not known for certain: {path} is not what the event log "
        "announced; inspect that file",
        "usage": {"turns": 1, "toolCalls": 1, "tokens": 0, "costUsd": 0.0},
    }
    result = await project.call("pinata_status", {"task": "b", "detail": "result"})
    assert result["status"] == "uncertain"
    assert str(path) in result["message"]
    other = await project.call("pinata_status", {"task": "c"})
    assert other["status"] == "succeeded"


async def test_damaged_result_is_told_by_a_process_that_has_shown_it_before(
    project: Project,
) -> None:
    async with project.owning():
        answer = await project.run([scout("look")], {"look": [reports()]})
        assert (await project.call("pinata_status", {}))["counts"] == {"succeeded": 1}
        damage(project, answer["run"], "look.1.json")
        seen = await project.call("pinata_status", {})
    assert seen == await project.call("pinata_status", {})
    assert seen["counts"] == {"uncertain": 1}


async def test_long_briefs_are_cut_and_pages_stay_readable_in_every_answer(
    project: Project,
) -> None:
    tasks = [scout(f"t-{number}") for number in range(10)]
    brief = "ü" * BRIEF_BYTES
    answer = await project.run(tasks, {"*": [reports(brief)]})
    again = await project.call("pinata_status", {})
    for page in (answer, again):
        assert 0 < page["nextOffset"] == len(page["tasks"]) < 10
        assert len(json.dumps(page["tasks"], ensure_ascii=False).encode()) <= PAGE_BYTES
        for task in page["tasks"]:
            assert task["truncated"] is True
            assert len(task["brief"].encode()) <= BRIEF_BYTES
    assert again["tasks"] == answer["tasks"]
    small = await project.call("pinata_status", {"limit": 2, "offset": 8})
    assert [task["id"] for task in small["tasks"]] == ["t-8", "t-9"]
    assert "nextOffset" not in small


async def test_everything_that_did_not_succeed_has_a_reason(project: Project) -> None:
    answer = await project.run(
        [scout("fails"), scout("waits", after=["fails"]), scout("works")],
        {"fails": [submits("failed", summary="no key")], "works": [reports()]},
    )
    shown = await project.call("pinata_status", {})
    assert shown == answer
    reasons = {task["id"]: task.get("reason") for task in shown["tasks"]}
    assert {name for name, reason in reasons.items() if reason} == {"fails", "waits"}
    assert shown["reason"]


async def test_conversation_is_shown_by_its_end_and_its_path(project: Project) -> None:
    answer = await project.run([scout("look")], {"look": [reports("seen it")]})
    shown = await project.call("pinata_status", {"task": "look", "detail": "transcript"})
    assert (shown["run"], shown["id"]) == (answer["run"], "look")
    assert "seen it" in shown["excerpt"]
    assert "seen it" in read(shown["path"])
    never = await project.run(
        [scout("fails"), scout("waits", after=["fails"])], {"fails": [submits("failed")]}
    )
    message = await project.call("pinata_status", {"task": "waits", "detail": "transcript"})
    assert message == {
        "run": never["run"],
        "id": "waits",
        "message": "there is no transcript: the agent has not started",
    }
