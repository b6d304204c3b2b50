import pytest

from engine.records.check import decode_checks
from engine.records.request import RequestError
from tests.support.jobs import check, check_spec


def refusal(data: object) -> str:
    with pytest.raises(RequestError) as caught:
        decode_checks(data, "checks")
    return str(caught.value)


def test_checks_become_values_with_two_minutes_by_default() -> None:
    data = [check("a"), {"id": "b", "argv": ["echo", "", "$HOME 'x'\n"], "timeoutMs": 1_200_000}]
    assert decode_checks(data, "checks") == (
        check_spec("a", "make", "test"),
        check_spec("b", "echo", "", "$HOME 'x'\n", timeout_ms=1_200_000),
    )


def test_no_checks_are_no_fault() -> None:
    assert decode_checks([], "checks") == ()


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"argv": []}, "checks[1].argv: [] is empty; it must be a nonempty array of texts: "),
        ({"argv": [""]}, 'checks[1].argv: [""] names no program; it must be '),
        ({"argv": "make"}, 'checks[1].argv: "make" is not an array; '),
        ({"argv": ["make", 5]}, "checks[1].argv[1]: 5 is not text; "),
        ({"argv": ["a\0"]}, 'checks[1].argv[0]: "a\\u0000" holds a NUL character; '),
        ({"timeoutMs": 0}, "checks[1].timeoutMs: 0 is too small; it must be an integer from 1 to "),
        ({"timeoutMs": 1_200_001}, "checks[1].timeoutMs: 1200001 is too large; it must be an "),
        ({"timeoutMs": True}, "checks[1].timeoutMs: true is not an integer; "),
        ({"timeoutMs": "5"}, 'checks[1].timeoutMs: "5" is not an integer; '),
        ({"timeoutMs": 5.0}, "checks[1].timeoutMs: 5.0 is not an integer; "),
        ({"timeoutMs": None}, "checks[1].timeoutMs: null is not an integer; "),
        ({"id": "A"}, 'checks[1].id: "A" does not fit; '),
        (
            {"shell": True},
            'checks[1]: unknown field "shell"; the fields are id, argv and timeoutMs',
        ),
        ({"timeout_ms": 5}, 'checks[1]: unknown field "timeout_ms"; '),
    ],
)
def test_a_check_that_does_not_fit_is_refused(fields: dict[str, object], sentence: str) -> None:
    assert refusal([check("a"), check("b", **fields)]).startswith(sentence)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({}, "checks: {} is not an array"),
        (None, "checks: null is not an array"),
        (["make"], 'checks[0]: "make" is not an object; it must be an object with id, argv and '),
        ([{1: 2}], "checks[0]: the field name 1 is not text"),
        ([{"argv": ["a"]}], "checks[0].id is missing; it must be 1 to 32 lower-case letters, "),
        (
            [check("a"), check("a")],
            'checks[1].id: "a" is already the id of checks[0]; give each check an id of its own',
        ),
    ],
)
def test_a_list_that_does_not_fit_is_refused(data: object, sentence: str) -> None:
    assert refusal(data).startswith(sentence)
