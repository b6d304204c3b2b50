import pytest

from engine.core.ids import TaskId
from engine.core.spec import (
    Backend,
    Kind,
    ModelChoice,
    ReviewBase,
    ReviewOf,
    ReviewPr,
    ReviewTarget,
    TaskSpec,
    Thinking,
)
from engine.records.request import RequestError
from engine.records.task import Roll, decode_tasks, unstated_acceptance
from tests.support.jobs import KINDS, builder, check, check_spec, reviewer, scout, task_spec

ROLL = Roll(KINDS, {"diver": "its tools go beyond a reader's"})


def decode(*items: object) -> tuple[TaskSpec, ...]:
    return decode_tasks(items, ROLL)


def refusal(*items: object) -> str:
    with pytest.raises(RequestError) as caught:
        decode(*items)
    return str(caught.value)


def test_a_task_with_every_field_becomes_a_value() -> None:
    item = builder(
        "fix-1",
        acceptance=["it works"],
        instructions=["be brief"],
        context=["it broke on Monday"],
        after=["look", "see", "look"],
        model={"provider": "scripted", "id": "a.json", "thinking": "xhigh"},
        backend="herdr-pi",
        ownership=["src/", "src", "[id].tsx"],
        checks=[check("unit", timeoutMs=5)],
        noChecksReason="kept as a note",
        evidenceChecks=[check("facts")],
    )
    assert decode(item) == (
        TaskSpec(
            id=TaskId("fix-1"),
            agent="builder",
            kind=Kind.WRITER,
            text="mend it",
            acceptance=("it works",),
            instructions=("be brief",),
            context=("it broke on Monday",),
            after=(TaskId("look"), TaskId("see")),
            model=ModelChoice("scripted", "a.json", Thinking.XHIGH),
            backend=Backend.HERDR_PI,
            ownership=("src", "[id].tsx"),
            checks=(check_spec("unit", "make", "test", timeout_ms=5),),
            no_checks_reason="kept as a note",
            evidence_checks=(check_spec("facts", "make", "test"),),
        ),
    )


@pytest.mark.parametrize("name", ["Bad", "a" * 33, "9a", "a_b", "", "a\n", "é", "-a"])
def test_an_id_that_does_not_fit_is_named_by_its_position(name: str) -> None:
    sentence = refusal(scout(), scout(name))
    assert sentence.startswith("tasks[1]: id: ")
    assert sentence.endswith(
        "does not fit; it must be 1 to 32 lower-case letters, digits and hyphens, starting with "
        "a letter"
    )


@pytest.mark.parametrize("name", ["a", "a-1", "a" * 32])
def test_ids_of_letters_digits_and_hyphens_fit(name: str) -> None:
    assert decode(scout(name))[0].id == name


@pytest.mark.parametrize(
    ("item", "sentence"),
    [
        (5, "tasks[0]: 5 is not an object"),
        (
            {},
            "tasks[0]: id is missing; it must be 1 to 32 lower-case letters, digits and hyphens, ",
        ),
        ({"id": 7}, "tasks[0]: id: 7 is not text; "),
        ({"id": ["a"]}, 'tasks[0]: id: ["a"] is not text; '),
        (scout(foo=1), 'task look: unknown field "foo"; the fields are id, agent, task, '),
        (scout(reviewof="a"), 'task look: unknown field "reviewof"; '),
        ({"id": "a"}, "task a: agent is missing; it must be the name of an installed definition"),
        (scout(task=""), 'task look: task: "" is empty; it must be text that says what is to be'),
        (scout(task=" \n"), 'task look: task: " \\u000a" is blank; '),
        (scout(task="a\0"), 'task look: task: "a\\u0000" holds a NUL character; '),
        (scout(task="\ud800"), 'task look: task: "\\ud800" is not text, because it holds half of '),
        (scout(acceptance=[]), "task look: acceptance: [] is empty; it must be a nonempty array "),
        (scout(acceptance=None), "task look: acceptance: null is not an array; "),
        (scout(acceptance="yes"), 'task look: acceptance: "yes" is not an array; '),
        (scout(acceptance=["a", ""]), 'task look: acceptance[1]: "" is empty; '),
        (scout(instructions=[5]), "task look: instructions[0]: 5 is not text; "),
        (scout(context=None), "task look: context: null is not an array; "),
        (scout(after="a"), 'task look: after: "a" is not an array; '),
        (scout(after=[5]), "task look: after[0]: 5 is not text; it must be the id of another "),
        (scout(model={"provider": "a", "id": "b"}), "task look: model.thinking is missing; "),
        (
            scout(model={"provider": "a", "id": "b", "thinking": "hard"}),
            (
                'task look: model.thinking: "hard" is not one of the known values; it must be '
                "one of off, minimal, low, medium, high, xhigh and max"
            ),
        ),
        (
            scout(model={"provider": "a" * 101, "id": "b", "thinking": "low"}),
            f'task look: model.provider: "{"a" * 101}" has more than 100 characters; ',
        ),
        (
            scout(model={"provider": "a", "id": "b", "thinking": "low", "effort": 1}),
            'task look: model: unknown field "effort"; the fields are provider, id and thinking',
        ),
        (scout(model="opus"), 'task look: model: "opus" is not an object; '),
        (
            scout(backend="docker"),
            (
                'task look: backend: "docker" is not one of the known values; it must be one of '
                "in-process, process and herdr-pi"
            ),
        ),
        (scout(backend=None), "task look: backend: null is not one of the known values; "),
    ],
)
def test_a_field_that_does_not_fit_is_refused_in_a_sentence(item: object, sentence: str) -> None:
    assert refusal(item).startswith(sentence)


def test_a_repeated_id_is_named_by_both_positions() -> None:
    assert refusal(scout("b"), scout("a"), scout("a")) == (
        'tasks[2]: id: "a" is already the id of tasks[1]; give each task an id of its own'
    )


def test_a_faulty_task_of_a_repeated_id_is_named_by_its_position() -> None:
    assert refusal(scout("a"), scout("a", task=5)).startswith("tasks[1]: task: 5 is not text")


def test_an_unknown_agent_is_answered_with_the_available_ones() -> None:
    assert refusal(scout(agent="planner")) == (
        'task look: agent: "planner" is not an installed definition; use builder, reviewer or scout'
    )


def test_an_unavailable_agent_is_refused_with_its_reason() -> None:
    assert refusal(scout(agent="diver")) == (
        'task look: agent: "diver" is not available: its tools go beyond a reader\'s; '
        "use builder, reviewer or scout"
    )


def test_without_any_definition_no_agent_is_offered() -> None:
    with pytest.raises(RequestError, match="is not an installed definition; none is available"):
        decode_tasks([scout()], Roll({}, {}))


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {"ownership": []},
            (
                "task fix: ownership is empty; builder is a writer and must own at least one "
                "relative path, such as src/login"
            ),
        ),
        (
            {"checks": []},
            (
                "task fix: checks is empty; builder is a writer: give at least one check, or say "
                "in noChecksReason why there is none"
            ),
        ),
        ({"noChecksReason": " "}, 'task fix: noChecksReason: " " is blank; '),
    ],
)
def test_a_writer_owns_something_and_is_checked(fields: dict[str, object], sentence: str) -> None:
    assert refusal(builder() | fields).startswith(sentence)


def test_what_a_writer_leaves_out_is_missing_not_empty() -> None:
    item = {"id": "fix", "agent": "builder", "task": "mend it"}
    assert refusal(item).startswith("task fix: ownership is missing; ")
    assert refusal(item | {"ownership": ["a"]}).startswith("task fix: checks is missing; ")


def test_a_writer_without_checks_gives_a_reason() -> None:
    (task,) = decode(builder(checks=[], noChecksReason="only words change"))
    assert (task.checks, task.no_checks_reason) == ((), "only words change")


@pytest.mark.parametrize("item", [scout(), reviewer("look", reviewBase="HEAD")])
@pytest.mark.parametrize(
    ("field", "value"),
    [("ownership", ["a"]), ("checks", [check()]), ("noChecksReason", "none needed")],
)
def test_what_is_for_writers_is_refused_elsewhere(
    item: dict[str, object], field: str, value: object
) -> None:
    kind = KINDS[str(item["agent"])].value
    assert refusal(item | {field: value}) == (
        f"task look: {field} is for writers only and {item['agent']} is a {kind}; remove it"
    )


def test_empty_lists_that_are_for_writers_are_harmless_elsewhere() -> None:
    assert decode(scout(ownership=[], checks=[])) == decode(scout())


def test_a_check_id_is_unique_over_both_lists() -> None:
    item = builder(checks=[check("a"), check("b")], evidenceChecks=[check("b")])
    assert refusal(item) == (
        'task fix: evidenceChecks[0].id: "b" is already the id of checks[1]; '
        "give each check an id of its own"
    )


@pytest.mark.parametrize(
    "entry", ["./src", "src//a", "/src", "C:/x", "a\\b", "A/.GIT/x", "..", ".", "", "a\0b", "a//"]
)
def test_entries_that_are_no_paths_inside_the_repository_are_refused(entry: str) -> None:
    sentence = refusal(builder(ownership=["ok", entry]))
    assert sentence.startswith("task fix: ownership[1]: ")
    assert sentence.endswith(
        "; it must be a relative path inside the repository, such as src/login"
    )


@pytest.mark.parametrize(
    ("fields", "target"),
    [
        ({"reviewOf": "fix"}, ReviewOf(TaskId("fix"))),
        ({"reviewBase": "HEAD"}, ReviewBase("HEAD")),
        ({"reviewBase": "origin/main~3"}, ReviewBase("origin/main~3")),
        ({"reviewPr": 7}, ReviewPr(7)),
    ],
)
def test_a_reviewer_has_one_target(fields: dict[str, object], target: ReviewTarget) -> None:
    assert decode(reviewer() | fields)[0].target == target


@pytest.mark.parametrize(
    ("fields", "given"),
    [
        ({}, "none"),
        ({"reviewOf": "fix", "reviewPr": 7}, "reviewOf and reviewPr"),
        (
            {"reviewOf": "fix", "reviewBase": "HEAD", "reviewPr": 7},
            "reviewOf, reviewBase and reviewPr",
        ),
    ],
)
def test_a_reviewer_has_neither_none_nor_several_targets(
    fields: dict[str, object], given: str
) -> None:
    assert refusal(reviewer() | fields) == (
        "task judge: reviewer is a reviewer and needs exactly one of reviewOf, reviewBase and "
        f"reviewPr, but the task has {given}"
    )


@pytest.mark.parametrize("item", [scout("a"), builder("a")])
@pytest.mark.parametrize(
    ("field", "value"), [("reviewOf", "b"), ("reviewBase", "HEAD"), ("reviewPr", 1)]
)
def test_only_reviewers_have_a_target(item: dict[str, object], field: str, value: object) -> None:
    kind = KINDS[str(item["agent"])].value
    assert refusal(item | {field: value}) == (
        f"task a: {field} is for reviewers only and {item['agent']} is a {kind}; remove it"
    )


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ("--output=x", '"--output=x" is not a revision, because it starts with a hyphen; '),
        ("a b", '"a b" is not a revision, because it holds a space or a control character; '),
        ("a\0", '"a\\u0000" is not a revision, because it holds a space or a control '),
        ("a\x1b", '"a\\u001b" is not a revision, because it holds a space or a control '),
        ("", '"" is empty; it must be a revision of 1 to 200 characters, such as HEAD'),
        ("a" * 201, f'"{"a" * 199}… has more than 200 characters; '),
        (5, "5 is not text; "),
    ],
)
def test_what_is_no_revision_is_refused(value: object, fault: str) -> None:
    assert refusal(reviewer(reviewBase=value)).startswith(f"task judge: reviewBase: {fault}")


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (0, "0 is too small; "),
        (-1, "-1 is too small; "),
        (True, "true is not an integer; "),
        ("7", '"7" is not an integer; '),
        (7.0, "7.0 is not an integer; "),
        (2**31, "2147483648 is too large; "),
    ],
)
def test_a_pull_request_has_a_positive_number(value: object, fault: str) -> None:
    assert refusal(reviewer(reviewPr=value)).startswith(f"task judge: reviewPr: {fault}")


def test_faults_are_looked_for_task_by_task() -> None:
    assert refusal(scout("a", agent="planner"), 5).startswith("task a: agent: ")
    assert refusal(builder("a", ownership=[]), scout("b", foo=1)).startswith("task a: ownership ")


def test_writers_and_their_reviewers_without_acceptance_are_noticed() -> None:
    specs = [
        task_spec("look"),
        task_spec("fix", kind=Kind.WRITER),
        task_spec("judge", kind=Kind.REVIEWER, target=ReviewOf(TaskId("fix"))),
        task_spec("live", kind=Kind.REVIEWER, target=ReviewBase("HEAD")),
    ]
    assert unstated_acceptance(specs) == (
        (
            "tasks fix and judge have no acceptance criteria, so the text alone says what a good "
            "result is"
        ),
    )
    assert unstated_acceptance(specs[:2]) == (
        "task fix has no acceptance criteria, so the text alone says what a good result is",
    )
    assert unstated_acceptance(specs[:1]) == ()


def test_stated_acceptance_needs_no_notice() -> None:
    assert unstated_acceptance(decode(builder(acceptance=["it works"]))) == ()
