import pytest
from hypothesis import given, strategies as st

from engine.core.errors import UsageError
from engine.core.ids import TaskId
from engine.core.spec import Limits, Mode, RunConfig, RunSpec
from engine.records.config import decode_config
from engine.records.job import JobRequest
from tests.support.jobs import (
    accepted,
    builder,
    check,
    check_spec,
    job,
    readable,
    refusal,
    reviewer,
    scout,
)


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


def test_a_call_with_every_field_becomes_a_value() -> None:
    data = {
        "tasks": [scout(), builder(after=["look"], acceptance=["it works"])],
        "background": True,
        "survive": True,
        "cwd": "packages/a",
        "approval": "go ahead",
        "instructions": ["keep it small"],
        "config": {"mode": "observe"},
        "integratedChecks": [check("all")],
        "noIntegratedChecksReason": "kept as a note",
    }
    run = accepted(data)
    assert [task.id for task in run.tasks] == ["look", "fix"]
    assert run == RunSpec(
        tasks=run.tasks,
        approval="go ahead",
        instructions=("keep it small",),
        config=RunConfig(mode=Mode.OBSERVE),
        integrated_checks=(check_spec("all", "make", "test"),),
        no_integrated_checks_reason="kept as a note",
        background=True,
        survive=True,
        cwd="packages/a",
    )


def test_a_call_with_a_single_reader_needs_nothing_else() -> None:
    run = accepted({"tasks": [scout()]})
    assert run == RunSpec(tasks=run.tasks)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (5, "the call: 5 is not an object"),
        ([], "the call: [] is not an object"),
        (None, "the call: null is not an object"),
        ({}, "tasks is missing; it must be a nonempty array of at most 1,000 tasks"),
        (job(), "tasks: [] is empty; it must be a nonempty array of at most 1,000 tasks"),
        ({"tasks": {}}, "tasks: {} is not an array; "),
        (job(scout(), why="x"), 'unknown field "why"; the fields are tasks, background, survive, '),
        (job(scout(), background=1), "background: 1 is not true or false; "),
        (job(scout(), survive="true"), 'survive: "true" is not true or false; '),
        (job(scout(), cwd=""), 'cwd: "" is empty; it must be the path of a folder '),
        (job(scout(), cwd=None), "cwd: null is not text; "),
        (job(scout(), instructions=["", 5]), 'instructions[0]: "" is empty; '),
        (job(scout(), config=[]), "config: [] is not an object"),
        (job(scout(), integratedChecks={}), "integratedChecks: {} is not an array; "),
        (job(scout(), noIntegratedChecksReason=""), 'noIntegratedChecksReason: "" is empty; '),
        ({1: 2, "tasks": [scout()]}, "the field name 1 is not text"),
        (
            job(scout(), integratedChecks=[check("a"), check("b", argv=[])]),
            "integratedChecks[1].argv: [] is empty; ",
        ),
        (
            job(scout(), integratedChecks=[check("a"), check("a")]),
            'integratedChecks[1].id: "a" is already the id of integratedChecks[0]; ',
        ),
        (
            job(scout(), config={"limits": {"concurrency": 65}}),
            "config.limits.concurrency: 65 is too large; it must be an integer from 1 to 64",
        ),
        (
            job(scout(), config={"colour": 1}),
            'config: unknown field "colour"; the fields are models, fallbacks, limits, mode, ',
        ),
    ],
)
def test_a_call_that_does_not_fit_is_refused_in_a_sentence(data: object, sentence: str) -> None:
    assert refusal(data).startswith(sentence)


def test_a_thousand_tasks_are_taken_and_one_more_is_refused() -> None:
    tasks = [scout(f"t{at}") for at in range(1_001)]
    assert len(accepted(job(*tasks[:-1])).tasks) == 1_000
    assert refusal(job(*tasks)).endswith(
        "has more than 1,000 entries; it must be a nonempty array of at most 1,000 tasks"
    )


@pytest.mark.parametrize(
    ("approval", "sentence"),
    [
        ({}, "approval is missing; task fix may change files, so say who approved that"),
        ({"approval": "  "}, 'approval: "  " is blank; it must be text that says who approved '),
        ({"approval": True}, "approval: true is not text; "),
    ],
)
def test_writers_need_an_approval(approval: dict[str, object], sentence: str) -> None:
    assert refusal({"tasks": [builder()]} | approval).startswith(sentence)


def test_a_missing_approval_names_every_writer() -> None:
    assert refusal({"tasks": [builder("a"), scout(), builder("b")]}).startswith(
        "approval is missing; tasks a and b may change files"
    )


def test_surviving_needs_the_background() -> None:
    assert refusal(job(scout(), survive=True)) == (
        "survive: true needs background: true; add it or leave survive out"
    )
    assert accepted(job(scout(), background=True)).background


def test_the_graph_is_checked() -> None:
    assert refusal(job(scout("a", after=["b"]))).startswith('task a: after[0]: "b" is not a task')
    assert refusal(job(scout("a", after=["a"]))).startswith('task a: after[0]: "a" is the task it')
    cycle = [scout("a", after=["c"]), scout("b", after=["a"]), scout("c", after=["b"])]
    assert "a -> c -> b -> a" in refusal(job(*cycle))


def test_a_cycle_of_a_thousand_tasks_is_one_sentence() -> None:
    tasks = [scout(f"t{at}", after=[f"t{(at + 1) % 1_000}"]) for at in range(1_000)]
    assert "t0 -> t1 -> " in refusal(job(*tasks))


def test_review_targets_are_checked() -> None:
    assert refusal(job(builder(), reviewer(reviewOf="fix"))).startswith(
        'task judge: reviewOf: "fix" is not in after'
    )


def test_overlapping_writers_are_refused_with_the_volumes_letter_case() -> None:
    data = job(builder("a", ownership=["Src"]), builder("b", ownership=["src/x"]))
    accepted(data)
    assert refusal(data, fold_case=True).startswith(
        'task b: ownership: "src/x" overlaps "Src" of task a'
    )


@pytest.mark.parametrize(
    ("data", "first"),
    [
        ({"why": 1, "tasks": [5]}, 'unknown field "why"'),
        (job(5, background=1), "background: "),
        (job(scout("a", after=["z"]), 5), "tasks[1]: "),
        ({"tasks": [builder(after=["z"])], "integratedChecks": [5]}, "task fix: after[0]: "),
        ({"tasks": [builder()], "survive": True, "config": {"a": 1}}, "approval is missing"),
        (job(scout(), survive=True, integratedChecks=[5]), "integratedChecks[0]: "),
        (job(scout(), survive=True, config={"a": 1}), "survive: "),
        (
            job(builder("a", ownership=["x"]), builder("b", ownership=["x"]), survive=True),
            "task b: ownership: ",
        ),
        (
            job(builder("a"), reviewer(reviewOf="a"), builder("b", ownership=["a"])),
            "task judge: reviewOf: ",
        ),
    ],
)
def test_the_first_fault_is_told_in_one_order(data: object, first: str) -> None:
    assert refusal(data).startswith(first)


def test_doubts_become_notices() -> None:
    run = accepted(job(builder(), config={"pi": 1, "limits": {"startupMs": 5}}))
    assert run.notices == (
        "task fix has no acceptance criteria, so the text alone says what a good result is",
        "config: pi no longer means anything and is ignored; remove it",
        "config: limits.startupMs no longer means anything and is ignored; remove it",
    )


def test_the_calls_configuration_lies_on_top_of_the_files() -> None:
    files = [
        decode_config({"limits": {"maxTurns": 5, "taskMs": 7}, "session": 1}, place="pinata.json"),
        decode_config({"limits": {"taskMs": 8}, "codemode": False}, place=".pi/pinata.json"),
    ]
    data = job(scout(), config={"mode": "observe", "codemode": True})
    run = accepted(data, layers=files)
    assert run.config == RunConfig(limits=Limits(max_turns=5, task_ms=8), mode=Mode.OBSERVE)
    assert run.notices == (
        "pinata.json: session no longer means anything and is ignored; remove it",
    )
    assert accepted({"tasks": [scout()]}, layers=files).config.codemode is False


@pytest.mark.parametrize(
    "data",
    [
        {"tasks": nested(100_000)},
        job(nested(100_000)),
        job(scout(task=nested(100_000))),
        job(scout(), config=nested(100_000)),
        job(scout(), config={"models": {"default": nested(100_000)}}),
        job(scout(), **{"x" * 1_000_000: 1}),
        job(scout() | {"\ud800": 1}),
        job(scout("x" * 1_000_000)),
        job(scout(agent="x" * 1_000_000)),
        job(scout(after=["\0" * 1_000_000])),
        job(scout(task="x" * 1_000_000)),
        job(scout() | {f"field{at}": 1 for at in range(10_000)}),
        job(builder(ownership=["a/" * 30_000 + "b"])),
        job(scout(agent="\x1b[2J\u202e")),
        job(scout(), config={"limits": {"costUsd": 10**400}}),
    ],
    ids=range(15),
)
def test_hostile_calls_are_refused_in_a_short_sentence(data: object) -> None:
    assert refusal(data).isprintable()


@pytest.mark.slow
def test_a_run_as_large_as_can_be_is_taken() -> None:
    """The writers form one chain, share one folder and own fifty paths each."""
    owned = [f"src/{at}" for at in range(50)]
    tasks = [
        builder(f"t{at}", ownership=["src", *owned], after=[f"t{at - 1}"] if at else [])
        for at in range(1_000)
    ]
    run = accepted(job(*tasks))
    assert run.tasks[-1].after == (TaskId("t998"),)
    assert run.notices[0].startswith("tasks t0, t1, t2, t3, t4, t5, t6, t7, t8, t9 and 990 more ")


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
task_fields = st.sampled_from([*JobRequest.model_json_schema()["properties"], "id", "agent"])


@pytest.mark.slow
@given(junk, task_fields, junk)
def test_whatever_is_sent_is_taken_or_refused_in_a_sentence(
    whole: object, field: str, value: object
) -> None:
    for data in (whole, job(scout(), **{field: value}), job(scout() | {field: value})):
        try:
            accepted(data)
        except UsageError as error:
            readable(error)


def test_the_schema_describes_tasks_checks_and_settings_in_full() -> None:
    schema = JobRequest.model_json_schema()
    fields = schema["properties"]
    task = fields["tasks"]["items"]
    assert list(task["properties"]) == [
        "id",
        "agent",
        "task",
        "acceptance",
        "instructions",
        "context",
        "after",
        "model",
        "backend",
        "ownership",
        "checks",
        "noChecksReason",
        "evidenceChecks",
        "reviewOf",
        "reviewBase",
        "reviewPr",
    ]
    assert task["required"] == ["id", "agent", "task"]
    assert schema["required"] == ["tasks"]
    assert fields["integratedChecks"]["items"] == {"$ref": "#/$defs/CheckRequest"}
    assert "passEnv" in fields["config"]["properties"]
    assert '"null"' not in str(schema)
    assert "None" not in str(schema)
