"""Configuration: what a file or a run may say, and how several of them make one."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated

from pydantic import AfterValidator, Field, SkipValidation, TypeAdapter, WithJsonSchema
from pydantic.fields import FieldInfo

from engine.core.environment import validate_pass_env
from engine.core.errors import UsageError
from engine.core.spec import Limits, Mode, RunConfig
from engine.records.fields import ID_PATTERN, ID_RULE, Many, NotNull, Text
from engine.records.model import BackendField, ModelField
from engine.records.request import Request, decode

MAX_FALLBACKS = 5
_DAY_MS = 86_400_000
_RETIRED = frozenset({"pi", "herdr", "session", "workspaceReuse"})
_RETIRED_LIMITS = frozenset({"startupMs"})
_MERGED = ("models", "fallbacks", "limits")


def _setup(value: object) -> object:
    if value is not False and not isinstance(value, str):
        raise ValueError("is neither text nor false")
    return value if value is False else _SCRIPT.validate_python(value)


def _name(text: str) -> str:
    if not re.fullmatch(ID_PATTERN, text):
        raise ValueError("does not fit")
    return text


def _variable(name: str) -> str:
    try:
        validate_pass_env(name)
    except UsageError as error:
        raise ValueError(f"is refused: {error}") from error
    return name


def _up_to(most: int) -> FieldInfo:
    """Return the bounds of a limit that counts something."""
    bounds: FieldInfo = Field(ge=1, le=most, description=f"an integer from 1 to {most:,}")
    return bounds


Variable = Annotated[
    str,
    Field(max_length=200, description="the name of a variable, such as DATABASE_URL"),
    AfterValidator(_variable),
]
DefinitionName = Annotated[str, Field(description=ID_RULE), AfterValidator(_name)]
_SCRIPT: TypeAdapter[str] = TypeAdapter(Text)


class LimitsRequest(Request):
    """Budgets of a run."""

    concurrency: Annotated[int | None, NotNull(), _up_to(64)] = None
    task_ms: Annotated[int | None, NotNull(), _up_to(_DAY_MS)] = None
    job_ms: Annotated[int | None, NotNull(), _up_to(_DAY_MS)] = None
    repairs: Annotated[int | None, NotNull(), _up_to(10)] = None
    max_turns: Annotated[int | None, NotNull(), _up_to(1_000)] = None
    max_tool_calls: Annotated[int | None, NotNull(), _up_to(10_000)] = None
    cost_usd: Annotated[
        float | None,
        NotNull(),
        Field(gt=0, le=10_000, allow_inf_nan=False, description="a number above 0, up to 10,000"),
    ] = None


class ConfigRequest(Request):
    """Settings of a run; whatever is left out keeps its default."""

    models: Annotated[
        dict[DefinitionName, ModelField] | None,
        NotNull(),
        Field(description="an object from `default` or a definition's name to its model"),
    ] = None
    fallbacks: Annotated[
        dict[
            DefinitionName,
            Annotated[
                Many[ModelField],
                Field(
                    max_length=MAX_FALLBACKS,
                    description=f"an array of up to {MAX_FALLBACKS} models",
                ),
            ],
        ]
        | None,
        NotNull(),
        Field(description="an object from a definition's name to the models to fall back on"),
    ] = None
    limits: Annotated[
        LimitsRequest | None, NotNull(), Field(description="an object of budgets")
    ] = None
    mode: Annotated[Mode | None, NotNull(), Field(strict=False, description="lean or observe")] = (
        None
    )
    backend: Annotated[BackendField | None, NotNull()] = None
    codemode: Annotated[bool | None, NotNull(), Field(description="true or false")] = None
    setup: Annotated[
        SkipValidation[str | bool | None],
        AfterValidator(_setup),
        WithJsonSchema({"anyOf": [{"type": "string"}, {"const": False}]}),
        Field(description="a shell script that prepares a worktree, or false for none"),
    ] = None
    include_uncommitted: Annotated[bool | None, NotNull(), Field(description="true or false")] = (
        None
    )
    web_extension: Annotated[
        Text | None, NotNull(), Field(description="the path of an extension")
    ] = None
    pass_env: Annotated[
        Many[Variable], Field(description="an array of names of environment variables")
    ] = ()

    def config(self) -> RunConfig:
        """Return the settings as a value, with defaults for what was left out."""
        converted = {"models", "fallbacks", "limits", "pass_env"}
        limits = self.limits.model_dump(exclude_unset=True) if self.limits else {}
        plain = {name: getattr(self, name) for name in self.model_fields_set - converted}
        return RunConfig(
            models=MappingProxyType(
                {name: model.choice() for name, model in (self.models or {}).items()}
            ),
            fallbacks=MappingProxyType(
                {
                    name: tuple(model.choice() for model in models)
                    for name, models in (self.fallbacks or {}).items()
                }
            ),
            limits=Limits(**limits),
            pass_env=tuple(dict.fromkeys(self.pass_env)),
            **plain,
        )


@dataclass(frozen=True, slots=True)
class ConfigLayer:
    """What one source says, valid by itself.

    Attributes:
        values: as the source wrote them, without retired keys.
        notices: a sentence for each retired key.
    """

    values: Mapping[str, object]
    notices: tuple[str, ...] = ()


_CONFIG: TypeAdapter[ConfigRequest] = TypeAdapter(ConfigRequest)


def decode_config(data: object, *, place: str = "", field: str = "") -> ConfigLayer:
    """Return the layer that `data` describes.

    Args:
        data: what a JSON text holds.
        place: the file that it comes from, for messages.
        field: the field that it is the value of, when it comes from a call.

    Raises:
        RequestError: a key or a value does not fit; names it and its place.
    """
    found: list[str] = []
    if isinstance(data, dict):
        found = [key for key in data if key in _RETIRED]
        data = _without(data, _RETIRED)
        if isinstance(limits := data.get("limits"), dict):
            found += [f"limits.{key}" for key in limits if key in _RETIRED_LIMITS]
            data["limits"] = _without(limits, _RETIRED_LIMITS)
    decode(_CONFIG, data, place=place, field=field)
    assert isinstance(data, dict)
    notices = (
        f"{place or field}: {key} no longer means anything and is ignored; remove it"
        for key in found
    )
    return ConfigLayer(MappingProxyType(data), tuple(notices))


def _without(data: Mapping[str, object], retired: frozenset[str]) -> dict[str, object]:
    return {key: value for key, value in data.items() if key not in retired}


def merge_config(layers: Sequence[ConfigLayer]) -> RunConfig:
    """Return the settings that `layers` make together; a later layer wins.

    `models`, `fallbacks` and `limits` merge entry by entry; other keys replace.
    """
    merged: dict[str, object] = {}
    for layer in layers:
        for key, value in layer.values.items():
            before = merged.get(key)
            if key in _MERGED and isinstance(before, dict) and isinstance(value, dict):
                merged[key] = before | value
            else:
                merged[key] = value
    return decode(_CONFIG, merged).config()
