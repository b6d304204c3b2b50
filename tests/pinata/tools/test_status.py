"""The status tool takes exactly its fields and writes nothing."""

from pathlib import Path

import pytest

from engine.core.errors import UsageError
from tests.support.projects import Project, read, reports, scout

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
