"""What the program `gh` says about a pull request, believed only where it can be meant."""

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from engine.core.errors import ExternalError
from engine.core.github import Hosted, hosted_pull_request, is_branch_name
from engine.core.ids import CommitId
from engine.core.quote import one_line, quote_value
from engine.core.subject import PullRequest

_COMMIT = re.compile(r"[0-9a-f]{40}")
_MAX_TITLE_CHARS = 300
_MAX_URL_CHARS = 2000


class _Answer(BaseModel):
    """The fields of `gh pr view --json`, by its names."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    number: int
    title: str
    url: Annotated[str, Field(max_length=_MAX_URL_CHARS)]
    head: str = Field(alias="headRefOid")
    branch: str = Field(alias="baseRefName")


FIELDS = tuple(field.alias or name for name, field in _Answer.model_fields.items())


@dataclass(frozen=True, slots=True)
class PullRequestFacts:
    """A pull request at the moment of the question.

    Attributes:
        repository: which it goes into.
        branch: of `repository`, which it goes into.
        head: its newest commit.
    """

    shown: PullRequest
    repository: Hosted
    branch: str
    head: CommitId


def decode_pull_request(data: bytes, number: int) -> PullRequestFacts:
    """Return what `data`, an answer of `gh` about pull request `number`, says.

    Raises:
        ExternalError: it is no such answer, or one of its values could mislead Git.
    """
    try:
        answer = _Answer.model_validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "the whole"
        raise _fault(field, first["msg"].lower()) from error
    if answer.number != number:
        raise _fault("number", f"it is about {quote_value(answer.number)}")
    repository = hosted_pull_request(answer.url, number)
    if repository is None:
        raise _fault("url", f"{quote_value(answer.url)} is not the page of this pull request")
    if _COMMIT.fullmatch(answer.head) is None:
        raise _fault("headRefOid", f"{quote_value(answer.head)} is not a commit")
    if not is_branch_name(answer.branch):
        raise _fault("baseRefName", f"{quote_value(answer.branch)} is not the name of a branch")
    shown = PullRequest(number, one_line(answer.title, _MAX_TITLE_CHARS), answer.url)
    return PullRequestFacts(shown, repository, answer.branch, CommitId(answer.head))


def _fault(field: str, fault: str) -> ExternalError:
    return ExternalError(f"the answer of gh is not one about a pull request: {field}: {fault}")
