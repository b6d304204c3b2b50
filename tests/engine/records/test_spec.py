import json
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, strategies as st

from engine.core.errors import CorruptionError
from engine.core.ids import CheckId, TaskId
from engine.core.spec import (
    Backend,
    CheckSpec,
    Kind,
    Limits,
    Mode,
    ModelChoice,
    ReviewBase,
    ReviewOf,
    ReviewPr,
    RunConfig,
    RunSpec,
    TaskSpec,
    Thinking,
)
from engine.records.spec import decode_spec, encode_spec
from tests.support.jobs import task_spec

texts = st.text(max_size=5)
many = st.lists(texts, max_size=2).map(tuple)
ids = texts.map(TaskId)
models = st.builds(ModelChoice, texts, texts, st.sampled_from(Thinking))
checks = st.lists(
    st.builds(CheckSpec, texts.map(CheckId), many, st.integers(1, 10)), max_size=2
).map(tuple)
tasks = st.builds(
    TaskSpec,
    id=ids,
    agent=texts,
    kind=st.sampled_from(Kind),
    text=texts,
    acceptance=many,
    instructions=many,
    context=many,
    after=st.lists(ids, max_size=2).map(tuple),
    model=st.none() | models,
    backend=st.none() | st.sampled_from(Backend),
    ownership=many,
    checks=checks,
    no_checks_reason=st.none() | texts,
    evidence_checks=checks,
    target=st.none()
    | st.builds(ReviewOf, ids)
    | st.builds(ReviewBase, texts)
    | st.builds(ReviewPr, st.integers(1)),
)
configs = st.builds(
    RunConfig,
    models=st.dictionaries(texts, models, max_size=2).map(MappingProxyType),
    fallbacks=st.dictionaries(texts, st.lists(models, max_size=2).map(tuple), max_size=2),
    limits=st.builds(Limits, cost_usd=st.none() | st.floats(0.01, 10_000)),
    mode=st.sampled_from(Mode),
    backend=st.sampled_from(Backend),
    codemode=st.booleans(),
    setup=st.sampled_from([None, False]) | texts,
    include_uncommitted=st.booleans(),
    web_extension=st.none() | texts,
    pass_env=many,
)
specs = st.builds(
    RunSpec,
    tasks=st.lists(tasks, max_size=3).map(tuple),
    approval=st.none() | texts,
    instructions=many,
    config=configs,
    integrated_checks=checks,
    no_integrated_checks_reason=st.none() | texts,
    background=st.booleans(),
    survive=st.booleans(),
    cwd=st.none() | texts,
    notices=many,
)


@given(specs)
def test_any_request_comes_back_from_json(spec: RunSpec) -> None:
    assert decode_spec(json.loads(json.dumps(encode_spec(spec)))) == spec


def stored() -> dict[str, Any]:
    return encode_spec(RunSpec(tasks=(task_spec("a"),)))


def damage(data: object) -> str:
    with pytest.raises(CorruptionError) as caught:
        decode_spec(data)
    return str(caught.value)


def test_another_version_is_refused_naming_both() -> None:
    assert damage(stored() | {"version": 2}) == (
        "spec: the stored request has version 2, and this program reads version 1"
    )
    assert "version true, " in damage(stored() | {"version": True})
    assert "version null, " in damage({})


def test_what_is_no_object_is_damaged() -> None:
    assert damage([]) == "spec: the stored request is not an object"


def test_nothing_is_converted_or_overlooked() -> None:
    assert damage(stored() | {"extra": 1}).startswith('spec: unknown field "extra"')
    assert damage(stored() | {"background": 1}) == "spec.background: 1 is not true or false"
    task = stored()["tasks"][0]
    assert damage(stored() | {"tasks": [task | {"kind": "boss"}]}) == (
        'spec.tasks[0].kind: "boss" is not one of the known values'
    )
    assert damage(stored() | {"tasks": [task | {"extra": 1}]}).startswith(
        'spec.tasks[0]: unknown field "extra"'
    )
    del task["text"]
    assert damage(stored() | {"tasks": [task]}) == "spec.tasks[0].text is missing"
