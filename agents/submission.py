"""What an agent hands in with `submit_result`, and the rules that it must keep.

A fault is a sentence for the agent, which may mend it and hand in again.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from urllib.parse import urlsplit

from pydantic import ValidationError

from agents.models.port import ToolDeclaration
from agents.schema import describe
from agents.submission_form import (
    FORMS,
    Form,
    ReaderForm,
    ReviewEntry,
    ReviewerForm,
    SourceEntry,
)
from engine.core.changes import unquote_path
from engine.core.errors import CorruptionError
from engine.core.fingerprint import Json, canonical
from engine.core.ids import Fingerprint, TaskId
from engine.core.outcome import Status, Verdict
from engine.core.paths import path_fault
from engine.core.quote import quote_value
from engine.core.spec import Kind
from engine.records.request import explain, explain_all

SUBMIT_RESULT = "submit_result"
MAX_SUBMISSION_BYTES = 4 << 20
_BLOCKING_SEVERITIES = frozenset({"critical", "high", "medium"})
_DESCRIPTION = (
    "Hand in your result. Call it once, alone, when your work is done or cannot go on. If it is"
    " refused, mend what the answer names and call it again; the first accepted one ends your work."
)


@dataclass(frozen=True, slots=True)
class ClaimedCheck:
    """A check that the agent says it ran; `status` is passed, failed or not-run."""

    name: str
    status: str
    detail: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A defect or a risk; `severity` is critical, high, medium, low or info."""

    severity: str
    message: str
    evidence: str


@dataclass(frozen=True, slots=True)
class CitedSource:
    """Something outside the repository that a brief rests on."""

    url: str
    title: str
    supports: str
    applicability: str


@dataclass(frozen=True, slots=True)
class SubmissionRules:
    """What one task's submission is held against.

    Attributes:
        target: of a review, the writer under review; None when something else is reviewed.
        fingerprint: of what is reviewed; None for readers and writers.
        require_sources: a succeeded reader must name at least one source.
    """

    kind: Kind
    target: TaskId | None = None
    fingerprint: Fingerprint | None = None
    require_sources: bool = False


@dataclass(frozen=True, slots=True)
class Submission:
    """An accepted result.

    Attributes:
        status: the agent's own word; `settle` says what it means for the task.
        changed_files: for writers, the paths that it says it changed, as written.
        verdict: of reviewers that reached one, bound to `target` and `fingerprint`.
    """

    status: Status
    summary: str
    changed_files: tuple[str, ...] = ()
    checks: tuple[ClaimedCheck, ...] = ()
    findings: tuple[Finding, ...] = ()
    blockers: tuple[str, ...] = ()
    brief: str | None = None
    sources: tuple[CitedSource, ...] = ()
    verdict: Verdict | None = None
    target: TaskId | None = None
    fingerprint: Fingerprint | None = None


@cache  # a schema costs a millisecond, and every conversation shows one
def submit_declaration(kind: Kind) -> ToolDeclaration:
    """Return `submit_result` as agents of this kind see it."""
    return ToolDeclaration(SUBMIT_RESULT, _DESCRIPTION, describe(FORMS[kind]))


def check_submission(data: object, rules: SubmissionRules) -> Submission | tuple[str, ...]:
    """Return what was handed in, or everything that is wrong with it, one sentence each."""
    form = FORMS[rules.kind]
    try:
        given = form.model_validate(data)
    except ValidationError as error:
        return explain_all(error, form.model_json_schema())
    faults = (*_common_faults(given, rules), *_kind_faults(given, rules))
    if faults:
        return faults
    submission = _submission(given, rules)
    if len(canonical(encode_submission(submission))) > MAX_SUBMISSION_BYTES:
        return (f"the result is larger than {MAX_SUBMISSION_BYTES >> 20} MiB; shorten it",)
    return submission


def _common_faults(given: Form, rules: SubmissionRules) -> Iterator[str]:
    if given.status == "succeeded" and given.blockers:
        yield "blockers: a succeeded result has none; remove them or choose another status"
    if given.changed_files and rules.kind is not Kind.WRITER:
        yield f"changedFiles: a {rules.kind.value} changes nothing; hand in an empty list"
        return
    seen: set[bytes] = set()
    for index, text in enumerate(given.changed_files):
        path, fault = _path(text)
        if fault is not None:
            remedy = "write it relative to the repository's root"
            yield f"changedFiles[{index}]: {quote_value(text)} {fault}; {remedy}"
        elif path in seen:
            yield f"changedFiles[{index}]: {quote_value(text)} stands there twice; remove one"
        seen.add(path)


def _path(text: str) -> tuple[bytes, str | None]:
    """Return the path that a record's text stands for, and what is wrong with it."""
    if not text.startswith('"'):
        return text.encode(), path_fault(text)
    try:
        path = unquote_path(text)
    except (ValueError, IndexError, KeyError):
        return text.encode(), "is not quoted as Git quotes paths"
    return path, path_fault(path.decode("utf-8", "replace").replace("\\", "/"))


def _kind_faults(given: Form, rules: SubmissionRules) -> Iterator[str]:
    succeeded = given.status == "succeeded"
    match given:
        case ReaderForm():
            if succeeded and not (given.brief or "").strip():
                yield "brief: is missing; a succeeded reader answers the question there"
            if succeeded and rules.require_sources and not given.sources:
                yield "sources: name at least one; this agent's results must rest on one"
            yield from _source_faults(given.sources or [])
        case ReviewerForm():
            if given.review is not None:
                yield from _review_faults(given, given.review, rules)
            elif succeeded:
                yield "review: is missing; a succeeded reviewer hands in a verdict"
        case _:
            pass


def _source_faults(sources: list[SourceEntry]) -> Iterator[str]:
    for index, source in enumerate(sources):
        try:
            parts = urlsplit(source.url)
            good = parts.scheme in {"http", "https"} and bool(parts.hostname)
            bare = parts.username is None and parts.password is None
        except ValueError:
            good, bare = False, True
        if not good:
            yield f"sources[{index}].url: {quote_value(source.url)} is not an http or https address"
        elif not bare:
            yield f"sources[{index}].url: holds credentials; give the address without them"


def _review_faults(given: Form, review: ReviewEntry, rules: SubmissionRules) -> Iterator[str]:
    if review.task_id is not None and review.task_id != rules.target:
        right = "leave it out" if rules.target is None else f"it is {rules.target}"
        yield f"review.taskId: {quote_value(review.task_id)} is not what you review; {right}"
    if review.fingerprint is not None and review.fingerprint != rules.fingerprint:
        right = "leave it out" if rules.fingerprint is None else f"it is {rules.fingerprint}"
        given_text = quote_value(review.fingerprint)
        yield f"review.fingerprint: {given_text} is not that of your target; {right}"
    if review.verdict == "approve" and given.status == "succeeded":
        for index, finding in enumerate(given.findings):
            if finding.severity in _BLOCKING_SEVERITIES:
                remedy = "request changes, or lower the severity if it may stay"
                yield (
                    f"review.verdict: approve does not go with findings[{index}], which is"
                    f" {finding.severity}; {remedy}"
                )
                return


def _submission(given: Form, rules: SubmissionRules) -> Submission:
    reader = given if isinstance(given, ReaderForm) else None
    review = given.review if isinstance(given, ReviewerForm) else None
    return Submission(
        status=Status(given.status),
        summary=given.summary,
        changed_files=tuple(given.changed_files),
        checks=tuple(ClaimedCheck(**check.model_dump()) for check in given.checks),
        findings=tuple(Finding(**finding.model_dump()) for finding in given.findings),
        blockers=tuple(given.blockers),
        brief=None if reader is None else reader.brief,
        sources=() if reader is None else _cited(reader.sources or []),
        verdict=None if review is None else Verdict(review.verdict),
        target=None if review is None else rules.target,
        fingerprint=None if review is None else rules.fingerprint,
    )


def _cited(sources: list[SourceEntry]) -> tuple[CitedSource, ...]:
    return tuple(CitedSource(**source.model_dump()) for source in sources)


def settle(submission: Submission) -> tuple[Status, str | None]:
    """Return the status of the task and, unless it succeeded, the reason.

    A reviewer that requests changes has rejected, also when it calls its own work failed: models
    say `failed` when they mean `rejected`.
    """
    own = {Status.SUCCEEDED, Status.FAILED}
    if submission.verdict is Verdict.CHANGES_REQUESTED and submission.status in own:
        return Status.REJECTED, f"changes requested: {submission.summary}"
    if submission.status is Status.SUCCEEDED:
        return Status.SUCCEEDED, None
    return submission.status, "; ".join(submission.blockers) or submission.summary


def encode_submission(submission: Submission) -> dict[str, Json]:
    """Return the JSON form that is saved: as handed in, a review's bindings filled in."""
    encoded: dict[str, Json] = {
        "status": submission.status.value,
        "summary": submission.summary,
        "changedFiles": submission.changed_files,
        "checks": [asdict(check) for check in submission.checks],
        "findings": [asdict(finding) for finding in submission.findings],
        "blockers": submission.blockers,
    }
    if submission.brief is not None:
        encoded["brief"] = submission.brief
    if submission.sources:
        encoded["sources"] = [asdict(source) for source in submission.sources]
    if submission.verdict is not None:
        encoded["review"] = {
            "verdict": submission.verdict.value,
            "taskId": submission.target,
            "fingerprint": submission.fingerprint,
        }
    return encoded


def decode_submission(stored: object, kind: Kind) -> Submission:
    """Return the submission that `encode_submission` wrote for an agent of this kind.

    Raises:
        CorruptionError: it is not one.
    """
    try:
        given = FORMS[kind].model_validate(stored)
    except ValidationError as error:
        raise CorruptionError(f"a saved result is damaged: {explain(error)}") from error
    review = given.review if isinstance(given, ReviewerForm) else None
    if review is None:
        return _submission(given, SubmissionRules(kind))
    target = None if review.task_id is None else TaskId(review.task_id)
    fingerprint = None if review.fingerprint is None else Fingerprint(review.fingerprint)
    return _submission(given, SubmissionRules(kind, target, fingerprint))
