"""The form that `submit_result` shows to each kind of agent, and that decodes what they fill in."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from engine.core.spec import Kind
from engine.records.fields import NO_NUL, NOT_BLANK, TEXT_LIMIT_CHARS
from engine.records.request import Request

_Text = Annotated[str, Field(max_length=TEXT_LIMIT_CHARS), NO_NUL]
_Words = Annotated[str, Field(max_length=TEXT_LIMIT_CHARS), NOT_BLANK]


class CheckEntry(Request):
    """A check that the agent says it ran."""

    name: _Words = Field(description="text that says what was run")
    status: Literal["passed", "failed", "not-run"] = Field(description="passed, failed or not-run")
    detail: _Text = Field(description="text, empty when there is nothing to add")


class FindingEntry(Request):
    """A defect or a risk."""

    severity: Literal["critical", "high", "medium", "low", "info"] = Field(
        description="critical, high, medium, low or info"
    )
    message: _Words = Field(description="text that says what is wrong, for whom and when")
    evidence: _Text = Field(description="text that says where to see it, such as a path and line")


class SourceEntry(Request):
    """Something outside the repository that the brief rests on."""

    url: _Words = Field(description="an http or https address without credentials")
    title: _Words = Field(description="text, its title")
    supports: _Words = Field(description="text that says what it shows")
    applicability: _Words = Field(description="text that says why it applies, such as a version")


class ReviewEntry(Request):
    """A verdict and, if the agent repeats it, what it is about."""

    verdict: Literal["approve", "changes_requested"] = Field(
        description="approve or changes_requested"
    )
    task_id: str | None = Field(None, description="the reviewed task's id, if you repeat it")
    fingerprint: str | None = Field(
        None, description="the fingerprint from your brief, if you repeat it"
    )


class CommonForm(Request):
    """What every agent fills in, and all that a writer does."""

    status: Literal["succeeded", "failed", "blocked", "cancelled"] = Field(
        description="succeeded, failed, blocked or cancelled: how your own work went"
    )
    summary: _Words = Field(description="text of one or two sentences that stand on their own")
    changed_files: list[_Words] = Field(
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
