import pytest

from engine.config import decode_config_file
from engine.records.config import ConfigLayer
from engine.records.request import RequestError


def test_a_file_becomes_a_layer() -> None:
    assert decode_config_file(b'{"mode": "lean", "pi": 1}', "pinata.json") == ConfigLayer(
        {"mode": "lean"}, ("pinata.json: pi no longer means anything and is ignored; remove it",)
    )


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b'{"colour": 1}', 'pinata.json: unknown field "colour"; '),
        (b"[]", "pinata.json: [] is not an object"),
        (b'{"mode": "lean", "mode": "observe"}', 'pinata.json: "mode" stands twice in one object'),
        (b"{", "pinata.json: line 1, column 2 is not JSON: "),
    ],
)
def test_a_fault_names_the_file(content: bytes, sentence: str) -> None:
    with pytest.raises(RequestError) as caught:
        decode_config_file(content, "pinata.json")
    assert str(caught.value).startswith(sentence)
