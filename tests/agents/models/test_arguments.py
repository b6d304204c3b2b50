"""Arguments of tool calls."""

import pytest

from agents.models.arguments import read_call


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ('{"path": "a", "n": [1, null]}', {"path": "a", "n": [1, None]}),
        ("{}", {}),
        ("", {}),
        (" \n", {}),
    ],
    ids=["object", "empty object", "nothing", "blank"],
)
def test_arguments_are_what_the_json_says(text: str, arguments: dict[str, object]) -> None:
    call = read_call("id", "read", text)
    assert (call.id, call.name, call.arguments, call.fault) == ("id", "read", arguments, None)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"path": "a', "the arguments are not JSON: unterminated string starting at at char"),
        ('{"a": NaN}', "the arguments are not JSON: NaN is not a number that JSON knows"),
        ("[" * 100_000, "the arguments are not JSON: arrays and objects are nested too deeply"),
        ('{"a": ' + "9" * 5_000 + "}", "the arguments are not JSON: Exceeds the limit"),
        ('["a"]', "the arguments are not a JSON object"),
        ("null", "the arguments are not a JSON object"),
    ],
    ids=["cut off", "no number", "too deep", "too many digits", "array", "null"],
)
def test_what_cannot_be_understood_is_a_fault_that_the_model_can_mend(
    text: str, fault: str
) -> None:
    call = read_call("id", "read", text)
    assert call.arguments == {}
    assert call.fault is not None
    assert call.fault.startswith(fault)
    assert call.fault.endswith("call the tool again with all its arguments as one JSON object")
