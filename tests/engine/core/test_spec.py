import pytest

from engine.core.ids import TaskId
from engine.core.spec import Kind, Limits, RunConfig, RunSpec
from tests.support.jobs import task_spec


def test_a_run_with_a_writer_has_writers() -> None:
    assert RunSpec(tasks=(task_spec("a"), task_spec("b", kind=Kind.WRITER))).has_writers
    assert not RunSpec(tasks=(task_spec("a"), task_spec("b", kind=Kind.REVIEWER))).has_writers


def test_a_task_is_found_by_its_id() -> None:
    spec = RunSpec(tasks=(task_spec("a"), task_spec("b")))
    assert spec.task(TaskId("b")) is spec.tasks[1]


def test_a_run_keeps_to_its_documented_limits_by_default() -> None:
    assert RunConfig().limits == Limits(
        concurrency=16,
        task_ms=1_200_000,
        job_ms=5_400_000,
        repairs=2,
        max_turns=60,
        max_tool_calls=400,
        cost_usd=None,
    )


def test_the_default_settings_cannot_be_changed_by_accident() -> None:
    with pytest.raises(TypeError):
        RunConfig().models["default"] = None  # type: ignore[index]  # it is read-only, as tested
