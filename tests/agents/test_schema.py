from agents.filetools.arguments import EditArguments, ReadArguments
from agents.schema import describe

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
