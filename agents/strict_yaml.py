"""YAML read as JSON would be: no surprises in values, no repeated keys, no references.

PyYAML takes the last of two equal keys in silence, reads `no` as false and `012` as ten, and turns
dates into objects. Files that people write by hand deserve better on each count. Only the plain
words `true`, `false` and `null`, and numbers as JSON spells them, are more than text here.
"""

import re

import yaml

_JSON_WORDS = {
    "tag:yaml.org,2002:null": (r"^(?:null|~|)$", ["n", "~", ""]),
    "tag:yaml.org,2002:bool": (r"^(?:true|false)$", ["t", "f"]),
    # Digits are limited so that no number of a file can become endless or an error of Python's own.
    "tag:yaml.org,2002:int": (r"^-?(?:0|[1-9][0-9]{0,17})$", list("-0123456789")),
    "tag:yaml.org,2002:float": (
        r"^-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,30}(?:[eE][-+]?[0-9]{1,2})?|[eE][-+]?[0-9]{1,2})$",
        list("-0123456789"),
    ),
}


class StrictYamlError(ValueError):
    """The text is not the plain YAML that is accepted.

    Attributes:
        problem: what is wrong and what to do, without the place.
        line: where, counted from 1; None when the parser does not know.
    """

    def __init__(self, problem: str, line: int | None) -> None:
        self.problem = problem
        self.line = line
        super().__init__(problem if line is None else f"line {line}: {problem}")


class _Loader(yaml.SafeLoader):
    """A loader whose words and rules are those of the module's docstring."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML reads this very attribute, and filling it anew here is what keeps the shared loader untouched

    def compose_node(self, parent: yaml.Node | None, index: object) -> yaml.Node | None:
        event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call] # PyYAML's stub leaves it bare
        if isinstance(event, yaml.AliasEvent):
            raise _fault(event.start_mark, "references such as *name are not read: repeat it")
        tag = getattr(event, "tag", None)
        if tag is not None:
            raise _fault(event.start_mark, f"the tag {tag!r} is not read: remove it")
        return super().compose_node(parent, index)  # type: ignore[arg-type] # the stub wants an int and the parser itself hands over nodes

    def construct_mapping(
        self,
        node: yaml.MappingNode,
        deep: bool = False,  # noqa: FBT001, FBT002 - PyYAML's own signature; values are always built whole
    ) -> dict[object, object]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _fault(key.start_mark, "a key must be plain text")
            if key.value in seen:
                raise _fault(key.start_mark, f"the key {key.value!r} stands here twice: remove one")
            seen.add(key.value)
        values = [self.construct_object(value, deep=True) for _, value in node.value]
        return {key.value: value for (key, _), value in zip(node.value, values, strict=True)}


for _tag, (_pattern, _first) in _JSON_WORDS.items():
    _Loader.add_implicit_resolver(_tag, re.compile(_pattern), _first)


def _fault(mark: "yaml.error.Mark | yaml._yaml.Mark | None", problem: str) -> StrictYamlError:
    return StrictYamlError(problem, None if mark is None else mark.line + 1)


def decode_yaml(text: str) -> object:
    """Return the value of a YAML document: dicts with text keys, lists and JSON's scalars.

    Raises:
        StrictYamlError: not YAML, not one document, a repeated key, a reference or a tag.
    """
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - the loader is a SafeLoader that does less
    except yaml.MarkedYAMLError as error:
        raise _fault(error.problem_mark, error.problem or "this is not YAML") from error
    except yaml.YAMLError as error:
        raise _fault(None, "a character that YAML does not allow") from error
    except RecursionError as error:
        raise _fault(None, "lists and mappings are nested too deeply") from error
