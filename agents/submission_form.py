"""The form that `submit_result` shows to each kind of agent, and that decodes what they fill in."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from agents.filetools.arguments import Arguments
from engine.core.spec import Kind


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("holds a NUL character")
    return text


def _with_words(text: str) -> str:
    if not text.strip():
        raise ValueError("is blank")
    return text


_Text = Annotated[str, Field(max_length=64_000), AfterValidator(_without_nul)]
_Words = Annotated[_Text, AfterValidator(_with_words)]


class CheckEntry(Arguments):
    """A check that the agent says it ran."""

    name: _Words = Field(description="text that says what was run")
    status: Literal["passed", "failed", "not-run"] = Field(description="passed, failed or not-run")
    detail: _Text = Field(description="text, empty when there is nothing to add")


class FindingEntry(Arguments):
    """A defect or a risk."""

    severity: Literal["critical", "high", "medium", "low", "info"] = Field(
        description="critical, high, medium, low or info"
    )
    message: _Words = Field(description="text that says what is wrong, for whom and when")
    evidence: _Text = Field(description="text that says where to see it, such as a path and line")


class SourceEntry(Arguments):
    """Something outside the repository that the brief rests on."""

    url: _Words = Field(description="an http or https address without credentials")
    title: _Words = Field(description="text, its title")
    supports: _Words = Field(description="text that says what it shows")
    applicability: _Words = Field(description="text that says why it applies, such as a version")


class ReviewEntry(Arguments):
    """A verdict and, if the agent repeats it, what it is about."""

    verdict: Literal["approve", "changes_requested"] = Field(
        description="approve or changes_requested"
    )
    task_id: str | None = Field(
        None, alias="taskId", description="the reviewed task's id, if you repeat it"
    )
    fingerprint: str | None = Field(
        None, description="the fingerprint from your brief, if you repeat it"
    )


class CommonForm(Arguments):
    """What every agent fills in, and all that a writer does."""

    status: Literal["succeeded", "failed", "blocked", "cancelled"] = Field(
        description="succeeded, failed, blocked or cancelled: how your own work went"
    )
    summary: _Words = Field(description="text of one or two sentences that stand on their own")
    changed_files: list[_Words] = Field(
        alias="changedFiles",
        max_length=100_000,
        description="an array of the repository-relative paths that you changed, added or deleted",
    )
    checks: list[CheckEntry] = Field(
        max_length=1000, description="an array of the checks that you ran, {name, status, detail}"
    )
    findings: list[FindingEntry] = Field(
        max_length=1000, description="an array of findings, {severity, message, evidence}"
    )
    blockers: list[_Words] = Field(
        max_length=100,
        description="an array of texts, what kept you from succeeding; empty when you succeeded",
    )


class ReaderForm(CommonForm):
    """What a reader fills in."""

    brief: _Text | None = Field(
        None, description="your answer as text; needed when status is succeeded"
    )
    sources: list[SourceEntry] | None = Field(
        None, max_length=200, description="an array of {url, title, supports, applicability}"
    )


class ReviewerForm(CommonForm):
    """What a reviewer fills in."""

    review: ReviewEntry | None = Field(
        None, description="an object with your verdict; needed when status is succeeded"
    )


Form = CommonForm | ReaderForm | ReviewerForm
FORMS: Mapping[Kind, type[Form]] = {
    Kind.READER: ReaderForm,
    Kind.WRITER: CommonForm,
    Kind.REVIEWER: ReviewerForm,
}
