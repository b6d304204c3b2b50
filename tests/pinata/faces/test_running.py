"""What a person is told to do next after a run."""

from typing import Any

from pinata.faces import running


def review(of: str | None, status: str, verdict: str) -> dict[str, Any]:
    target = {"kind": "branch"} if of is None else {"task": of}
    return {"id": f"by-{of}", "status": status, "review": {"target": target, "verdict": verdict}}


def test_rejected_builders_are_named_once_each() -> None:
    tasks = [
        {"id": "fix", "status": "succeeded"},
        review("fix", "rejected", "changes_requested"),
        review("fix", "rejected", "changes_requested"),
        review("other", "succeeded", "approve"),
        review(None, "rejected", "changes_requested"),
    ]
    assert running._rejected({"tasks": tasks}) == ["fix"]
