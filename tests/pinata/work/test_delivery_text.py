"""What a model reads of a run's end, and what it is told to do next."""

from typing import Any

import pytest

from engine.core.ids import RunId
from engine.core.outcome import LOST_REASON, Status
from pinata.work.delivery_text import TEXT_BYTES, damage_text, end_text, overtaken_text
from pinata.work.owed import Settlement

RUN = RunId("0123456789abcdef")
KEY = f"{RUN}/1"
REPAIR = f'{{"run": "{RUN}", "task": "fix", "feedback": "..."}}'


def task(id_: str, status: str, **fields: Any) -> dict[str, Any]:
    return {"id": id_, "agent": "builder", "status": status, "summary": ""} | fields


def answer(*tasks: dict[str, Any], status: str = "failed", **fields: Any) -> dict[str, Any]:
    counts = {"succeeded": 1, status: len(tasks)}
    found = {"run": RUN, "status": status, "counts": counts, "tasks": tasks}
    return found | {"taskCount": len(tasks)} | fields


def next_steps(text: str) -> list[str]:
    lines = text.splitlines()
    return [line.removeprefix("Next: ") for line in lines if line.startswith("Next: ")]


def test_text_says_what_the_run_and_each_task_came_to() -> None:
    told = end_text(
        KEY,
        answer(
            task("fix", "failed", reason="a check\n failed", summary="not this"),
            task("look", "succeeded", summary="it is so"),
            task("more", "succeeded", brief="see there"),
            task("less", "succeeded"),
            reason="task fix failed",
        ),
        None,
    )
    assert told.splitlines() == [
        f"Run {RUN} has ended: failed (1 succeeded, 4 failed). [delivery {KEY}]",
        "Reason: task fix failed",
        "- fix (builder): failed: a check failed",
        "- look (builder): succeeded: it is so",
        "- more (builder): succeeded: see there",
        "- less (builder): succeeded: nothing was said",
        f'Next: pinata_status {{"run": "{RUN}"}} tells more; start a new run for what is left.',
    ]


def test_text_of_many_long_tasks_fits_and_says_where_the_rest_is() -> None:
    tasks = [task(f"t{number}", "failed", reason="ö" * 4000, artifact={}) for number in range(64)]
    told = end_text(KEY, answer(*tasks, nextOffset=64, taskCount=1000, reason="ü" * 9000), None)
    assert len(told.encode()) <= TEXT_BYTES
    assert f'- and 936 more tasks: pinata_status {{"run": "{RUN}", "offset": 64}}' in told
    assert len(next_steps(told)) == 5


@pytest.mark.parametrize(
    ("found", "missing", "steps"),
    [
        (
            answer(task("look", "succeeded"), status="succeeded"),
            None,
            [f'pinata_status {{"run": "{RUN}"}} tells all that was found.'],
        ),
        (
            answer(task("fix", "succeeded", artifact={}), status="succeeded"),
            "task fix: nobody reviewed its change",
            ["the change cannot be integrated: task fix: nobody reviewed its change."],
        ),
        (
            answer(
                task("fix", "succeeded", artifact={}),
                task("judge", "rejected", review={"target": {"task": "fix"}}),
                task("pr", "rejected", review={"target": {"kind": "pr"}}),
                task("gone", "cancelled", reason=LOST_REASON),
            ),
            None,
            [
                f"pinata_repair {REPAIR} has fix mended.",
                f"`pinata rerun {RUN}` starts again what was lost.",
            ],
        ),
        (
            answer(task("fix", "cancelled", reason=LOST_REASON), status="cancelled"),
            None,
            [f'pinata_status {{"run": "{RUN}"}} tells more; start a new run for what is left.'],
        ),
        (
            answer(task("fix", "failed", artifact={}), status="cancelled"),
            None,
            [f'pinata_status {{"run": "{RUN}"}} tells more; start a new run for what is left.'],
        ),
    ],
)
def test_next_steps_are_those_that_the_run_allows(
    found: dict[str, Any], missing: str | None, steps: list[str]
) -> None:
    assert next_steps(end_text(KEY, found, missing)) == steps


def test_overtaken_settlement_says_whether_the_run_has_ended_again() -> None:
    failed = Settlement(1, 5, Status.FAILED, "task fix failed")
    assert overtaken_text(KEY, RUN, failed, 2) == (
        f"Run {RUN} ended as failed, task fix failed, and has ended again since then. "
        f"[delivery {KEY}]"
    )
    well = Settlement(2, 5, Status.SUCCEEDED, None)
    assert overtaken_text(f"{RUN}/2", RUN, well, 2) == (
        f"Run {RUN} ended as succeeded, and goes on since then. [delivery {RUN}/2]"
    )


def test_damage_is_told_in_one_line() -> None:
    assert damage_text(f"{RUN}/0", RUN, "a\nb") == (
        f"What became of run {RUN} cannot be told, since its records are damaged: a b. "
        f"[delivery {RUN}/0]"
    )
