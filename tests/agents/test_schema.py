from agents.filetools.arguments import EditArguments, ReadArguments
from agents.filetools.registry import TOOLS
from agents.schema import describe
from agents.submission import submit_declaration
from engine.core.spec import Kind

WHERE = "relative to the working directory or absolute"


def test_a_schema_is_plain_and_without_null() -> None:
    assert describe(ReadArguments) == {
        "type": "object",
        "additionalProperties": False,
        "required": ["path"],
        "properties": {
            "path": {
                "type": "string",
                "description": f"the path of the file to read, {WHERE}",
            },
            "offset": {
                "type": "integer",
                "minimum": 1,
                "description": "the number of the first line to show, from 1 up",
            },
            "limit": {
                "type": "integer",
                "minimum": 1,
                "description": "how many lines to show, from 1 up",
            },
        },
    }
    schema = str(describe(EditArguments))
    assert "'required': ['oldText', 'newText']" in schema
    assert "$ref" not in schema


def test_no_declaration_refers_to_anything_outside_of_itself() -> None:
    shown = [tool.parameters for tool in TOOLS.values()]
    shown += [submit_declaration(kind).parameters for kind in Kind]
    assert [each for each in shown if "$ref" in str(each)] == []


def test_a_part_that_may_be_left_out_is_described_as_it_is() -> None:
    properties = submit_declaration(Kind.REVIEWER).parameters["properties"]
    assert isinstance(properties, dict)
    review = properties["review"]
    assert review["type"] == "object"
    assert set(review["properties"]) == {"taskId", "fingerprint", "verdict"}
    assert review["description"].startswith("an object with your verdict")
