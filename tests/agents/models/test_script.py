import json
from pathlib import Path

import pytest

from agents.models.port import Trouble, Usage
from agents.models.script import (
    MAX_SCRIPT_BYTES,
    Script,
    ScriptedCall,
    ScriptError,
    Turn,
    decode_script,
    read_script,
)
from engine.core.errors import UsageError

ROOT = Path(__file__).resolve().parents[3]


def test_every_field_of_a_turn_is_read() -> None:
    text = b"""\
fix:
  - text: hello
    thinking: hm
    calls:
      - tool: bash
        arguments: {command: ls, deep: [{a: 1}]}
      - tool: ls
    usage: {input: 10, output: 2, costUsd: 1}
    delayMs: 5
  - error: rate_limit
  - text: wait
    hang: true
"*": []
"""
    script = decode_script(text, "x.yaml")
    assert script == Script(
        {
            "fix": (
                Turn(
                    text="hello",
                    thinking="hm",
                    calls=(
                        ScriptedCall("bash", {"command": "ls", "deep": [{"a": 1}]}),
                        ScriptedCall("ls", {}),
                    ),
                    usage=Usage(10, 2, 1.0),
                    delay_ms=5,
                ),
                Turn(error=Trouble.RATE_LIMIT),
                Turn(text="wait", hang=True),
            ),
            "*": (),
        }
    )


def test_json_and_yaml_say_the_same() -> None:
    content = {"fix@2": [{"text": "hi", "calls": [{"tool": "ls"}]}]}
    as_json = decode_script(json.dumps(content).encode(), "a.JSON")
    assert as_json == decode_script(b"fix@2:\n- text: hi\n  calls:\n  - tool: ls\n", "a.yml")


def test_a_byte_order_mark_is_ignored() -> None:
    assert decode_script(b"\xef\xbb\xbfa:\n- text: x\n", "a.yaml").turns_of("a", 1)


@pytest.mark.parametrize(
    ("task", "attempt", "said"),
    [
        ("fix", 2, "fix@2"),
        ("fix", 1, "fix"),
        ("fix", 3, "fix"),
        ("other", 2, "*@2"),
        ("other", 1, "*"),
    ],
)
def test_the_most_exact_key_gives_the_turns(task: str, attempt: int, said: str) -> None:
    keys = ["*", "*@2", "fix", "fix@2"]
    script = decode_script(json.dumps({key: [{"text": key}] for key in keys}).encode(), "a.json")
    assert [turn.text for turn in script.turns_of(task, attempt)] == [said]


def test_a_task_without_a_key_has_no_turns() -> None:
    assert decode_script(b"fix:\n- text: x\n", "a.yaml").turns_of("other", 1) == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "must map task ids, or *, to lists of turns; write `*:` first"),
        ("- text: a", "must map task ids, or *, to lists of turns; write `*:` first"),
        ("fix: hello", 'fix: must be a list of turns, not "hello"'),
        ("Fix: []", 'the key "Fix" is not a task: use a task id such as fix, fix@2'),
        ("fix@0: []", 'the key "fix@0" is not a task'),
        ("'**': []", 'the key "**" is not a task'),
        ("fix: [1]", "fix[0]: 1 is not an object"),
        ("fix: [{}]", "fix[0]: says nothing; give it text, calls, an error or hang"),
        ("fix: [{text: null}]", "fix[0].text: null is not text; it must be text that"),
        ("fix: [{usage: {input: 1}}]", "fix[0]: says nothing"),
        ("fix: [{txt: a}]", 'fix[0]: unknown field "txt"; the fields are text, thinking, calls,'),
        ("fix: [{text: 1}]", "fix[0].text: 1 is not text; it must be text that the agent says"),
        (
            "fix: [{calls: []}]",
            "fix[0].calls: [] is empty; it must be a nonempty list of calls, each",
        ),
        (
            "fix: [{calls: [{arguments: {}}]}]",
            "fix[0].calls[0].tool is missing; it must be the name of a tool",
        ),
        (
            "fix: [{calls: [{tool: ''}]}]",
            'fix[0].calls[0].tool: "" is empty; it must be the name of a tool',
        ),
        (
            "fix: [{calls: [{tool: a, args: {}}]}]",
            'fix[0].calls[0]: unknown field "args"; the fields are tool and',
        ),
        (
            "fix: [{calls: [{tool: a, arguments: []}]}]",
            "fix[0].calls[0].arguments: [] is not an object; it",
        ),
        (
            "fix: [{text: a, usage: {input: -1}}]",
            "fix[0].usage.input: -1 is too small; it must be a",
        ),
        (
            "fix: [{text: a, usage: {costUsd: '1'}}]",
            'fix[0].usage.costUsd: "1" is not a number; it must',
        ),
        ("fix: [{text: a, delayMs: true}]", "fix[0].delayMs: true is not an integer; it must be"),
        ("fix: [{text: a, delayMs: 1.0}]", "fix[0].delayMs: 1.0 is not an integer; it must be"),
        ("fix: [{error: busy}]", 'fix[0].error: "busy" is not one of the known values; it must be'),
        ("fix: [{hang: false}]", "fix[0].hang: false is not one of the known values; it must be"),
        ("fix: [{hang: true, error: overloaded}]", "fix[0]: has both error and hang; keep one"),
        ("fix: [{calls: [{tool: a}], hang: true}]", "fix[0].calls: an answer that breaks off"),
        ("fix: [{text: a}]\nfix: []", "line 2: the key 'fix' stands here twice: remove one"),
    ],
)
def test_a_fault_is_one_sentence_with_file_place_and_remedy(text: str, problem: str) -> None:
    with pytest.raises(ScriptError) as caught:
        decode_script(text.encode(), "dir/x.yaml")
    assert isinstance(caught.value, UsageError)
    assert str(caught.value).startswith(f"script dir/x.yaml: {problem}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"a": [}', "line 1, column 8 is not JSON: expecting value; mend it there"),
        ('{"a": [], "a": []}', '"a" stands twice in one object; mend it there'),
        (
            '{"a": [{"text": "x", "delayMs": NaN}]}',
            "NaN is not a number that JSON knows; mend it there",
        ),
        ("1" * 9_999, "a number has too many digits; mend it there"),
        ("[" * 100_000, "arrays and objects are nested too deeply; mend it there"),
    ],
)
def test_json_is_read_as_strictly(text: str, problem: str) -> None:
    with pytest.raises(ScriptError) as caught:
        decode_script(text.encode(), "x.json")
    assert str(caught.value) == f"script x.json: {problem}"


def test_a_script_that_is_not_text_or_far_too_large_is_refused() -> None:
    with pytest.raises(ScriptError, match="is not UTF-8 text; save it as UTF-8"):
        decode_script(b"a: \xff", "x.yaml")
    with pytest.raises(ScriptError, match="is larger than 4 MiB; split it"):
        decode_script(b"#" * (MAX_SCRIPT_BYTES + 1), "x.yaml")


def test_a_script_that_is_not_there_is_refused_with_its_path(tmp_path: Path) -> None:
    path = tmp_path / "none.yaml"
    with pytest.raises(ScriptError) as caught:
        read_script(path)
    assert str(caught.value) == (
        f"script none.yaml: {path} cannot be read: No such file or directory; "
        "give the path of a script"
    )
    with pytest.raises(ScriptError, match="is no regular file"):
        read_script(tmp_path)


@pytest.mark.parametrize(
    "path", sorted((ROOT / "fixtures").rglob("script*/*.yaml")), ids=lambda path: path.name
)
def test_scripts_that_come_with_the_project_are_valid(path: Path) -> None:
    assert read_script(path).turns


def test_the_demonstration_script_is_valid() -> None:
    script = read_script(ROOT / "fixtures" / "demo" / "script.yaml")
    assert all(script.turns.values())
