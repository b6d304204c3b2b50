from typing import Any

from agents.session_branch import Branch, Lead, Shown
from engine.core.spec import Thinking

HEADER = {"type": "session", "version": 3, "id": "session-1", "cwd": "/repo"}


def entry(id_: str, parent: str | None, kind: str, **content: Any) -> dict[str, Any]:
    return {"type": kind, "id": id_, "parentId": parent, **content}


def said(id_: str, parent: str | None, text: str, role: str = "user") -> dict[str, Any]:
    return entry(id_, parent, "message", message={"role": role, "content": text})


def texts(*lines: dict[str, Any]) -> list[object]:
    return [each.message["content"] for each in Branch.of([HEADER, *lines]).shown()]


def test_the_branch_leads_from_the_last_entry_to_the_beginning() -> None:
    lines = [
        HEADER,
        said("a", None, "first"),
        said("b", "a", "left behind"),
        said("c", "a", "second"),
    ]
    branch = Branch.of(lines)
    assert branch.ids == {"a", "c"}
    assert branch.end == "c"
    assert branch.shown() == (
        Shown("a", {"role": "user", "content": "first"}),
        Shown("c", {"role": "user", "content": "second"}),
    )


def test_a_file_without_entries_has_an_empty_branch() -> None:
    branch = Branch.of([HEADER])
    assert (branch.end, branch.shown(), branch.lead()) == (None, (), Lead())


def test_a_branch_begins_where_the_entry_before_is_missing_and_circles_end() -> None:
    assert texts(said("b", "lost", "on")) == ["on"]
    assert texts(said("a", "b", "one"), said("b", "a", "two")) == ["one", "two"]


def test_lines_and_types_that_nobody_knows_are_passed_over() -> None:
    lines = (
        said("a", None, "first"),
        {"type": "message"},
        entry("b", "a", "label", targetId="a", label="x"),
        entry("c", "b", "custom", customType="mine", data={}),
        entry("d", "c", "message", message="not an object"),
        said("e", "d", "second"),
    )
    assert texts(*lines) == ["first", "second"]


def test_messages_of_extensions_and_summaries_of_branches_are_read_as_the_users() -> None:
    lines = (
        entry("a", None, "custom_message", customType="mine", content="told", details={}),
        entry("b", "a", "branch_summary", fromId="x", summary="tried it"),
        entry("c", "b", "branch_summary", fromId="x", summary=""),
    )
    told, came_back = texts(*lines)
    assert told == "told"
    assert "<summary>\ntried it</summary>" in str(came_back)


def test_system_messages_are_shown_to_nobody() -> None:
    assert texts(said("a", None, "prompt", "system"), said("b", "a", "hello")) == ["hello"]


def test_a_compaction_stands_for_all_before_what_it_kept() -> None:
    lines = (
        said("a", None, "old"),
        said("b", "a", "kept"),
        entry("c", "b", "compaction", summary="earlier", firstKeptEntryId="a"),
        entry("d", "c", "compaction", summary="short", firstKeptEntryId="b"),
        said("e", "d", "new"),
    )
    summary, *rest = texts(*lines)
    assert "<summary>\nshort\n</summary>" in str(summary)
    # The older summary lies between what was kept and the newer one, which speaks for both.
    assert rest == ["kept", "new"]


def test_a_compaction_that_kept_nothing_known_is_followed_by_what_came_after() -> None:
    lines = (
        said("a", None, "old"),
        entry("b", "a", "compaction", summary="short", firstKeptEntryId="gone"),
        said("c", "b", "new"),
    )
    assert texts(*lines)[1:] == ["new"]


def test_hidden_entries_are_left_out_and_edited_ones_read_as_edited() -> None:
    lines = (
        said("a", None, "hidden"),
        said("b", "a", "wrong"),
        entry("c", "b", "context_edit", targetId="a", replacement=None),
        entry("d", "c", "context_edit", targetId="b", replacement={"content": "right"}),
    )
    assert texts(*lines) == ["right"]


def test_the_last_model_level_prompt_and_tools_lead_the_session() -> None:
    read, grep = {"name": "read"}, {"name": "grep"}
    answer = {"role": "assistant", "provider": "acme", "model": "m2", "content": []}
    lines = [
        HEADER,
        entry("a", None, "model_change", provider="acme", modelId="m1"),
        entry("b", "a", "thinking_level_change", thinkingLevel="high"),
        entry(
            "c",
            "b",
            "message",
            message={
                "role": "system",
                "sections": {"one": "1", "two": "2"},
                "toolsAdded": [read, grep, "?"],
            },
        ),
        entry(
            "d",
            "c",
            "message",
            message={"role": "system", "sections": {"one": None}, "toolsRemoved": [read]},
        ),
        entry("e", "d", "message", message=answer),
        entry("f", "e", "model_change", provider=None, modelId="m9"),
    ]
    assert Branch.of(lines).lead() == Lead(
        "acme", "m2", Thinking.HIGH, sections={"two": "2"}, tools={"grep": grep}
    )
