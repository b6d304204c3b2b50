from pathlib import Path

import pytest

from agents.filetools.arguments import ReadArguments
from agents.filetools.registry import TOOLS
from agents.filetools.tool import ToolAnswer, ToolContext, build
from engine.core.errors import ExternalError
from tests.support.toolbox import Toolbox


def test_all_seven_tools_are_offered_with_schemas_that_refuse_unknown_fields() -> None:
    assert list(TOOLS) == ["read", "grep", "find", "ls", "bash", "edit", "write"]
    for name, tool in TOOLS.items():
        assert tool.name == name
        assert tool.parameters["additionalProperties"] is False
        assert tool.description.endswith(".")


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("read", {}, "read: path is missing; it must be the path of the file to read"),
        ("read", {"path": 3}, "path: 3 is not text; it must be the path"),
        ("read", {"path": "a", "offset": 0}, "offset: 0 is too small; it must be the number of"),
        (
            "read",
            {"path": "a", "offset": 10**30},
            f"offset: {10**30} is larger than any file is long",
        ),
        (
            "find",
            {"pattern": "a", "limit": 10**30},
            f"limit: {10**30} is larger than any file is long",
        ),
        ("read", {"path": "a", "offset": 5.0}, "offset: 5.0 is not an integer"),
        ("read", {"path": "a", "offset": "5"}, 'offset: "5" is not an integer'),
        ("read", {"path": "a", "limit": True}, "limit: true is not an integer; it must be how"),
        (
            "read",
            {"file": "a"},
            'unknown field "file"; the fields are path, offset and limit. path',
        ),
        ("read", {"path": "\ud800"}, 'path: "\\ud800" holds half of a surrogate pair'),
        ("edit", {"path": "a", "edits": []}, "edits: [] is empty; it must be an array of"),
        ("edit", {"path": "a", "edits": "[]"}, 'edits: "[]" is not an array'),
        (
            "edit",
            {"path": "a", "edits": [{"oldText": "a", "new_text": "b"}]},
            'edits[0]: unknown field "new_text"; the fields are oldText and newText. edits[0].n',
        ),
        (
            "bash",
            {"command": "true", "timeout": float("nan")},
            "timeout: NaN is not a finite number",
        ),
        ("bash", {"command": "true", "timeout": -1}, "timeout: -1 is too small; it must be a num"),
        ("grep", {"pattern": "a", "ignorecase": True}, "path, glob, ignoreCase, literal, context"),
    ],
)
async def test_wrong_arguments_are_answered_with_what_is_right(
    box: Toolbox, tool: str, arguments: dict[str, object], said: str
) -> None:
    fault = await box.fault(tool, **arguments)
    assert said in fault
    assert "\n" not in fault


@pytest.mark.parametrize("given", [None, [], "path", 3])
async def test_arguments_that_are_no_object_are_refused(box: Toolbox, given: object) -> None:
    answer = await TOOLS["read"].run(box.context, given)
    assert answer.is_error
    assert answer.text.startswith("read: the arguments must be one JSON object, not ")


async def test_null_for_an_optional_field_means_that_it_is_absent(box: Toolbox) -> None:
    box.put("a", "x")
    assert await box.text("read", path="a", offset=None, limit=None) == "x"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ExternalError("git cannot be run"), "tool: git cannot be run"),
        (PermissionError(13, "Permission denied", "/secret/place"), "tool: permission denied"),
        (OSError("odd"), "tool: odd"),
    ],
)
async def test_trouble_outside_is_an_answer_without_paths_of_our_own(
    box: Toolbox, error: Exception, said: str
) -> None:
    async def perform(context: ToolContext, arguments: ReadArguments) -> ToolAnswer:
        raise error

    tool = build(perform, "tool", description="Fails.", arguments=ReadArguments)
    assert await tool.run(box.context, {"path": "a"}) == ToolAnswer(said, is_error=True)


async def test_a_bug_is_not_hidden(box: Toolbox) -> None:
    async def perform(context: ToolContext, arguments: ReadArguments) -> ToolAnswer:
        raise AssertionError

    tool = build(perform, "tool", description="Is wrong.", arguments=ReadArguments)
    with pytest.raises(AssertionError):
        await tool.run(box.context, {"path": "a"})


def test_an_empty_home_is_no_home(tmp_path: Path) -> None:
    async def nothing() -> tuple[bytes, ...]:
        return ()

    assert ToolContext(tmp_path, {"HOME": ""}, None, nothing, "sh").home is None
