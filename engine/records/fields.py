"""Field types that requests share; each description says what a right value is."""

from typing import Annotated, TypeVar

from pydantic import AfterValidator, Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema

T = TypeVar("T")

TEXT_LIMIT_CHARS = 64_000
ID_PATTERN = "^[a-z][a-z0-9-]{0,31}$"
ID_RULE = "1 to 32 lower-case letters, digits and hyphens, starting with a letter"
TEXT_RULE = f"text of 1 to {TEXT_LIMIT_CHARS:,} characters"


class NotNull:
    """Marks a field that may be left out but must not be null: None means left out."""

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Return the schema of `source` without null."""
        schema = handler(source)
        assert schema["type"] == "nullable"
        inner: CoreSchema = schema["schema"]
        return inner


def _no_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("holds a NUL character")
    return text


def _prose(text: str) -> str:
    if not text.strip():
        raise ValueError("is blank")
    return _no_nul(text)


NO_NUL = AfterValidator(_no_nul)
NOT_BLANK = AfterValidator(_prose)

# An array stays immutable once it is read; strict would refuse the list that JSON made of it.
Many = Annotated[tuple[T, ...], Field(strict=False)]
Argument = Annotated[
    str,
    Field(
        max_length=TEXT_LIMIT_CHARS,
        description=f"text of at most {TEXT_LIMIT_CHARS:,} characters without NUL",
    ),
    NO_NUL,
]
Id = Annotated[str, Field(pattern=ID_PATTERN, description=ID_RULE)]
Text = Annotated[
    str,
    Field(min_length=1, max_length=TEXT_LIMIT_CHARS, description=TEXT_RULE),
    NOT_BLANK,
]
Reference = Annotated[str, Field(description="the id of another task of this run")]
