"""The form that `submit_result` shows to each kind of agent, and that decodes what they fill in."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from agents.filetools.arguments import Arguments
from engine.core.spec import Kind


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("holds a NUL character; remove it")
    return text


def _with_words(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank")
    return text


_Text = Annotated[str, Field(max_length=64_000), AfterValidator(_without_nul)]
_Words = Annotated[_Text, AfterValidator(_with_words)]


class CheckEntry(Arguments):
    """A check that the agent says it ran."""

    name: _Words = Field(description="What was run")
    status: Literal["passed", "failed", "not-run"]
    detail: _Text = Field(description="What it said; empty when there is nothing to say")


class FindingEntry(Arguments):
    """A defect or a risk."""

    severity: Literal["critical", "high", "medium", "low", "info"]
    message: _Words = Field(description="What is wrong, for whom and when")
    evidence: _Text = Field(description="Where to see it, such as a path and a line")


class SourceEntry(Arguments):
    """Something outside the repository that the brief rests on."""

    url: _Words = Field(description="An http or https address without credentials")
    title: _Words
    supports: _Words = Field(description="What it shows")
    applicability: _Words = Field(description="Why it applies here, such as the version it is for")


class ReviewEntry(Arguments):
    """A verdict and, if the agent repeats it, what it is about."""

    verdict: Literal["approve", "changes_requested"]
    task_id: str | None = Field(None, alias="taskId", description="The reviewed task, if any")
    fingerprint: str | None = Field(None, description="The fingerprint from your brief")


class CommonForm(Arguments):
    """What every agent fills in, and all that a writer does."""

    status: Literal["succeeded", "failed", "blocked", "cancelled"] = Field(
        description="How your own work went"
    )
    summary: _Words = Field(description="One or two sentences that stand on their own")
    changed_files: list[_Words] = Field(
        alias="changedFiles",
        max_length=100_000,
        description="Repository-relative paths that you changed, added or deleted",
    )
    checks: list[CheckEntry] = Field(max_length=1000, description="The checks that you ran")
    findings: list[FindingEntry] = Field(max_length=1000)
    blockers: list[_Words] = Field(
        max_length=100, description="What kept you from succeeding; empty when you succeeded"
    )


class ReaderForm(CommonForm):
    """What a reader fills in."""

    brief: _Text | None = Field(
        None, description="The answer, as text; needed when status is succeeded"
    )
    sources: list[SourceEntry] | None = Field(None, max_length=200)


class ReviewerForm(CommonForm):
    """What a reviewer fills in."""

    review: ReviewEntry | None = Field(None, description="Needed when status is succeeded")


Form = CommonForm | ReaderForm | ReviewerForm
FORMS: Mapping[Kind, type[Form]] = {
    Kind.READER: ReaderForm,
    Kind.WRITER: CommonForm,
    Kind.REVIEWER: ReviewerForm,
}
