from typing import Annotated, Literal

import pytest
from pydantic import Field, TypeAdapter, ValidationError

from engine.records.request import Request, RequestError, decode, explain


class Lamp(Request):
    """A lamp."""

    colour: Literal["red", "green"] = "red"
    watts: Annotated[int, Field(multiple_of=5, description="a multiple of 5")] = 5


LAMP = TypeAdapter(Lamp)


def refusal(data: object, *, place: str = "", field: str = "") -> str:
    with pytest.raises(RequestError) as caught:
        decode(LAMP, data, place=place, field=field)
    assert str(caught.value) == (
        f"{caught.value.place}: {caught.value.fault}" if caught.value.place else caught.value.fault
    )
    return str(caught.value)


def test_a_request_that_fits_is_returned() -> None:
    assert decode(LAMP, {"colour": "green"}) == Lamp(colour="green")


def test_a_fault_is_named_with_its_place_and_field() -> None:
    assert refusal({"colour": 5}) == "colour: 5 is not one of the known values"
    assert refusal({"colour": 5}, place="task a") == (
        "task a: colour: 5 is not one of the known values"
    )
    assert refusal({"colour": 5}, field="lamp") == "lamp.colour: 5 is not one of the known values"


def test_an_unknown_field_comes_before_anything_else() -> None:
    assert refusal({"colour": 5, "size": 1}) == (
        'unknown field "size"; the fields are colour and watts'
    )


def test_where_there_are_no_other_fields_to_choose_from_that_is_said() -> None:
    class Bare(Request):
        """Takes nothing."""

    class Named(Request):
        """Takes a name."""

        name: str

    for kind, rest in ((Bare, "leave it out"), (Named, "the only field is name")):
        with pytest.raises(RequestError) as caught:
            decode(TypeAdapter(kind), {"name": "x", "size": 1} if kind is Named else {"size": 1})
        assert str(caught.value) == f'unknown field "size"; {rest}'


def test_what_would_be_right_is_not_said_twice() -> None:
    class Switch(Request):
        """A switch."""

        is_on: Annotated[bool, Field(description="true or false")]

    with pytest.raises(RequestError) as caught:
        decode(TypeAdapter(Switch), {"isOn": 5})
    assert str(caught.value) == "isOn: 5 is not true or false"


def test_of_several_faults_the_first_field_is_named() -> None:
    assert refusal({"watts": 7, "colour": 5}).startswith("colour: ")


def test_a_fault_of_no_known_kind_still_says_what_would_be_right() -> None:
    assert refusal({"watts": 7}) == "watts: 7 is not allowed; it must be a multiple of 5"


def test_a_request_that_is_no_object_is_named_too() -> None:
    assert refusal(5) == "the call: 5 is not an object"
    assert refusal(5, place="tasks[0]") == "tasks[0]: 5 is not an object"
    assert refusal(5, field="config") == "config: 5 is not an object"


def test_without_a_schema_the_fault_alone_is_told() -> None:
    with pytest.raises(ValidationError) as caught:
        Lamp.model_validate({"size": 1, "watts": 7})
    assert explain(caught.value) == 'unknown field "size"'
    with pytest.raises(ValidationError) as caught:
        Lamp.model_validate({"watts": 7})
    assert explain(caught.value) == "watts: 7 is not allowed"
