"""Models as callers name them."""

from typing import Annotated

from pydantic import Field

from engine.core.spec import Backend, ModelChoice, Thinking
from engine.records.fields import NOT_BLANK
from engine.records.request import Request

MODEL_RULE = "an object with provider, id and thinking"
_MAX_PROVIDER_CHARS = 100
_MAX_ID_CHARS = 300


def _known(values: type[Thinking] | type[Backend]) -> str:
    names = [member.value for member in values]
    return "one of " + ", ".join(names[:-1]) + f" and {names[-1]}"


BackendField = Annotated[Backend, Field(strict=False, description=_known(Backend))]
ThinkingField = Annotated[Thinking, Field(strict=False, description=_known(Thinking))]


class ModelRequest(Request):
    """A model and how much it should think; every field is required."""

    provider: Annotated[
        str,
        Field(
            min_length=1,
            max_length=_MAX_PROVIDER_CHARS,
            description=f"a provider's name of 1 to {_MAX_PROVIDER_CHARS} characters",
        ),
        NOT_BLANK,
    ]
    id: Annotated[
        str,
        Field(
            min_length=1,
            max_length=_MAX_ID_CHARS,
            description=f"a model's name of 1 to {_MAX_ID_CHARS} characters",
        ),
        NOT_BLANK,
    ]
    thinking: ThinkingField

    def choice(self) -> ModelChoice:
        """Return the model as a value."""
        return ModelChoice(self.provider, self.id, self.thinking)


ModelField = Annotated[ModelRequest, Field(description=MODEL_RULE)]
