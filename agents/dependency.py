"""What a brief says about predecessors: JSON objects of bounded size, one a line."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from agents.submission import Submission
from engine.core.fingerprint import Json
from engine.core.ids import TaskId
from engine.core.outcome import Status

OBJECT_LIMIT_BYTES = 8 << 10
TOTAL_LIMIT_BYTES = 64 << 10
_LONGEST_INNER_TEXT_CHARS = 400
# Ties in length are broken in this order: what says least in few words goes first.
_SHORTENABLE = ("brief", "findings", "sources", "changedFiles", "summary", "blockers")


@dataclass(frozen=True, slots=True)
class Dependency:
    """A settled predecessor.

    Attributes:
        submission: what it handed in; None when it never did.
        result_path: where its whole saved result can be read; None keeps the place to ourselves.
        summary: shown when nothing was handed in, such as the reason.
        changed_files: what the engine found changed; takes the place of what a writer claims.
    """

    task: TaskId
    agent: str
    status: Status
    result_path: str | None
    submission: Submission | None = None
    summary: str = ""
    changed_files: tuple[str, ...] | None = None


def render_dependencies(dependencies: Sequence[Dependency]) -> tuple[str, ...]:
    """Return a line of JSON for each dependency, in order.

    No line is longer than 8 KiB of UTF-8, and all together, line ends included, are not longer than
    64 KiB: when they would be, the longest shrink to one common length. A shortened one says
    `truncated`. With more dependencies than can be shown at all, the last ones are left out.
    """
    contents = [_content(dependency) for dependency in dependencies]
    least = [min(_size(content), _size(_emptied(content))) for content in contents]
    shown = _how_many_fit(least)
    share = _fair_share(
        [_size(content) for content in contents[:shown]],
        least[:shown],
        TOTAL_LIMIT_BYTES - shown,
    )
    return tuple(compact_json(_shortened(content, share)) for content in contents[:shown])


def compact_json(value: Json) -> str:
    """Return JSON on one line; what UTF-8 cannot hold becomes a question mark."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace").decode()


def _size(value: Json) -> int:
    return len(compact_json(value).encode())


def _content(dependency: Dependency) -> dict[str, Json]:
    submission = dependency.submission
    content: dict[str, Json] = {
        "task": dependency.task,
        "agent": dependency.agent,
        "status": dependency.status.value,
        "summary": dependency.summary if submission is None else submission.summary,
    }
    if dependency.result_path is not None:
        content["resultPath"] = dependency.result_path
    if submission is not None:
        optional: dict[str, Json] = {
            "verdict": None if submission.verdict is None else submission.verdict.value,
            "brief": submission.brief,
            "findings": [asdict(finding) for finding in submission.findings],
            "sources": [asdict(source) for source in submission.sources],
            "blockers": list(submission.blockers),
            "changedFiles": list(submission.changed_files),
        }
        content |= {key: value for key, value in optional.items() if value}
    if dependency.changed_files:
        content["changedFiles"] = list(dependency.changed_files)
    return content


def _how_many_fit(least: Sequence[int]) -> int:
    """Return how many of the smallest possible lines fit together, line ends included."""
    total = 0
    for index, size in enumerate(least):
        total += size + 1
        if total > TOTAL_LIMIT_BYTES:
            return index
    return len(least)


def _fair_share(sizes: Sequence[int], least: Sequence[int], total: int) -> int:
    """Return the largest length to which the longer ones must shrink so that all fit."""

    def fits(share: int) -> bool:
        lengths = (max(low, min(size, share)) for size, low in zip(sizes, least, strict=True))
        return sum(lengths) <= total

    return _largest(fits, OBJECT_LIMIT_BYTES)


def _largest(fits: Callable[[int], bool], limit: int) -> int:
    """Return the largest number up to `limit` that fits, where smaller ones fit too; at least 0."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _shortened(content: dict[str, Json], limit_bytes: int) -> dict[str, Json]:
    """Return `content` no longer than the limit, as far as its free texts and lists allow."""
    if _size(content) <= limit_bytes:
        return content
    # No more than this can fit in any case, and the search below costs time per character.
    clipped = {key: _clip(value) for key, value in content.items()}
    shorter: dict[str, Json] = {**clipped, "truncated": True}
    left = [key for key in _SHORTENABLE if key in shorter]
    while left and _size(shorter) > limit_bytes:
        longest = max(left, key=lambda key: _size(shorter[key]))
        left.remove(longest)
        shorter[longest] = _cut(shorter, longest, limit_bytes)
    return shorter


def _emptied(content: dict[str, Json]) -> dict[str, Json]:
    """Return the shortest form of `content`."""
    empty: dict[str, Json] = {
        key: "" if isinstance(content[key], str) else [] for key in _SHORTENABLE if key in content
    }
    return {**content, **empty, "truncated": True}


def _clip(value: Json) -> Json:
    return value[:OBJECT_LIMIT_BYTES] if isinstance(value, str | list) else value


def _cut(content: dict[str, Json], key: str, limit_bytes: int) -> Json:
    """Return as much from the beginning of one field as fits; texts within lists shrink first."""
    value = content[key]
    if isinstance(value, str):
        text = value
        return text[
            : _largest(lambda n: _size({**content, key: text[:n]}) <= limit_bytes, len(text))
        ]
    assert isinstance(value, list)
    items = [_with_short_texts(item) for item in value]
    kept = _largest(lambda n: _size({**content, key: items[:n]}) <= limit_bytes, len(items))
    return items[:kept]


def _with_short_texts(item: Json) -> Json:
    if isinstance(item, str):
        return item[:_LONGEST_INNER_TEXT_CHARS]
    assert isinstance(item, dict)
    return {key: _with_short_texts(value) for key, value in item.items()}
