import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from agents.herdsman.birth import SavedSession
from agents.herdsman.errors import Category, HerdError
from agents.herdsman.identity import Label, SessionId
from agents.herdsman.runtime import IDENTITY, RETIRED
from agents.herdsman.saved_session import (
    ManagedSession,
    find_session,
    read_managed_session,
    same_session_file,
)
from agents.herdsman.session_file import (
    begin_managed_session,
    discard_session,
    new_session_path,
    restore_session,
)
from engine.core.errors import ExternalError
from engine.core.spec import ModelChoice, Thinking
from engine.system import faults
from tests.support.privileges import unprivileged

SESSION = SessionId("0199c1a2-0000-7000-8000-0000000000aa")
OTHER = SessionId("0199c1a2-0000-7000-8000-0000000000bb")
NOW_MS = 1_796_037_048_556


def begin(path: Path, session: SessionId = SESSION, cwd: str = "/project") -> Path:
    begin_managed_session(
        path, session, cwd=cwd, definition="scout", label=Label("scout-2"), now_ms=NOW_MS
    )
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return begin(new_session_path(tmp_path / "agent", "/project", SESSION, NOW_MS))


def add(file: Path, *entries: Mapping[str, Any]) -> None:
    with file.open("a", encoding="utf-8") as out:
        out.writelines(json.dumps(entry) + "\n" for entry in entries)


def custom(kind: str, **data: Any) -> dict[str, Any]:
    return {"type": "custom", "customType": kind, "data": data, "id": "c", "parentId": None}


def chain(*entries: dict[str, Any]) -> Iterable[dict[str, Any]]:
    for number, entry in enumerate(entries):
        yield entry | {"id": f"e{number}", "parentId": f"e{number - 1}" if number else None}


def refusal(file: Path) -> str:
    with pytest.raises(HerdError) as caught:
        read_managed_session(file)
    assert caught.value.trouble.category is Category.INVALID_REQUEST
    assert str(file) in str(caught.value)
    return str(caught.value)


def find(given: str, tmp_path: Path, **more: Any) -> Path:
    places: dict[str, Any] = {
        "agent_dir": tmp_path / "agent",
        "home": tmp_path,
        "cwd": str(tmp_path / "agent"),
    }
    return find_session(given, **places | more)


def not_found(given: str, tmp_path: Path, **more: Any) -> HerdError:
    with pytest.raises(HerdError) as caught:
        find(given, tmp_path, **more)
    return caught.value


def test_a_new_session_lies_where_pi_would_save_it(tmp_path: Path, file: Path) -> None:
    assert file.relative_to(tmp_path) == Path(
        f"agent/sessions/--project--/2026-11-30T11-10-48-556Z_{SESSION}.jsonl"
    )
    assert new_session_path(Path("/a"), "/b/c:d", SESSION, 0).parent.name == "--b-c-d--"


def test_a_new_session_says_whose_it_is_and_nothing_else(file: Path) -> None:
    header, entry = map(json.loads, file.read_text("utf-8").splitlines())
    assert header == {
        "type": "session",
        "version": 3,
        "id": SESSION,
        "timestamp": "2026-11-30T11:10:48.556Z",
        "cwd": "/project",
    }
    assert entry["customType"] == IDENTITY
    assert entry["parentId"] is None
    assert file.stat().st_mode & 0o777 == 0o600
    saved = SavedSession(SESSION, file, "/project", "scout", Label("scout-2"))
    assert read_managed_session(file) == ManagedSession(
        saved, is_retired=False, size_bytes=file.stat().st_size
    )


def test_a_session_that_cannot_be_written_is_not_there(tmp_path: Path) -> None:
    faults.install("error:herd.session.written:1:ENOSPC")
    try:
        with pytest.raises(ExternalError, match="No space left"):
            begin(tmp_path / "s" / "x.jsonl")
    finally:
        faults.install("")
    assert list((tmp_path / "s").iterdir()) == []


def test_a_discarded_session_is_gone_and_may_be_already(tmp_path: Path, file: Path) -> None:
    discard_session(file)
    discard_session(file)
    discard_session(tmp_path / "no" / "x.jsonl")
    assert not file.exists()
    with pytest.raises(ExternalError, match="cannot be removed"):
        discard_session(file.parent)


def test_what_programs_noted_in_a_start_that_failed_is_cut_off(file: Path) -> None:
    before = file.read_bytes()
    add(file, {"type": "model_change", "id": "a", "parentId": None}, custom("note"))
    restore_session(file, len(before))
    assert file.read_bytes() == before


def test_what_somebody_said_meanwhile_stays(file: Path) -> None:
    size = file.stat().st_size
    add(file, {"type": "model_change"}, {"type": "message", "message": {"role": "user"}})
    before = file.read_bytes()
    restore_session(file, size)
    assert file.read_bytes() == before
    with pytest.raises(ExternalError, match="cannot be restored"):
        restore_session(file.with_name("gone"), 0)


def test_an_identity_that_is_told_twice_is_one(file: Path) -> None:
    add(file, custom(IDENTITY, label="scout-2", definition="scout", session=SESSION))
    assert read_managed_session(file).saved.label == "scout-2"


def test_contradicting_identities_are_refused(file: Path) -> None:
    add(file, custom(IDENTITY, label="scout", definition="scout", session=SESSION))
    assert "two things" in refusal(file)


def test_what_names_another_session_came_with_a_copied_history_and_is_ignored(file: Path) -> None:
    add(
        file,
        custom(IDENTITY, label="other", definition="other", session=OTHER),
        custom(RETIRED, session=OTHER),
        custom(RETIRED),
        {"type": "custom", "customType": RETIRED, "data": "text"},
    )
    found = read_managed_session(file)
    assert (found.saved.label, found.is_retired) == ("scout-2", False)


def test_a_retired_session_says_so(file: Path) -> None:
    add(file, custom(RETIRED, session=SESSION))
    assert read_managed_session(file).is_retired


def test_a_copy_under_another_id_is_nobodys(tmp_path: Path, file: Path) -> None:
    text = file.read_text("utf-8").replace(SESSION, OTHER, 1)
    copy = tmp_path / "copy.jsonl"
    copy.write_text(text, "utf-8")
    assert "not the session of a managed agent" in refusal(copy)


@pytest.mark.parametrize(
    ("identity", "reason"),
    [
        ({"definition": "scout", "label": "Scout"}, "does not name its agent"),
        ({"definition": "scout"}, "does not name its agent"),
        ({"definition": " ", "label": "scout"}, "does not name its definition"),
        ({"definition": 1, "label": "scout"}, "does not name its definition"),
    ],
)
def test_an_identity_without_names_is_refused(
    tmp_path: Path, identity: dict[str, Any], reason: str
) -> None:
    file = tmp_path / "x.jsonl"
    add(file, {"type": "session", "version": 3, "id": SESSION, "cwd": "/project"})
    add(file, custom(IDENTITY, session=SESSION, **identity))
    assert reason in refusal(file)


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ({"cwd": ""}, "does not tell where"),
        ({"cwd": " "}, "does not tell where"),
        ({"cwd": None}, "does not tell where"),
        ({"version": 4}, "its version is 4"),
        ({"id": "abc"}, "not the session of a managed agent"),
        ({"id": 5}, "no session file"),
        ({"type": "message"}, "no session file"),
    ],
)
def test_a_header_that_is_not_an_agents_is_refused(
    tmp_path: Path, header: dict[str, Any], reason: str
) -> None:
    file = tmp_path / "x.jsonl"
    add(file, {"type": "session", "version": 3, "id": SESSION, "cwd": "/project"} | header)
    add(file, custom(IDENTITY, session=SESSION, definition="scout", label="scout"))
    assert reason in refusal(file)


def test_what_is_no_file_or_empty_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").touch()
    assert "no regular file" in refusal(tmp_path / "pipe")
    assert "no session file" in refusal(tmp_path / "empty")
    assert "cannot be continued" in refusal(tmp_path)
    assert "No such file" in refusal(tmp_path / "gone")


def test_torn_lines_are_passed_over(file: Path) -> None:
    with file.open("a", encoding="utf-8") as out:
        out.write('{"type":"custom","cust\n[1]\n' + "[" * 100_000 + '\n{"type":')
    assert read_managed_session(file).saved.label == "scout-2"


def test_model_and_thinking_are_those_that_the_session_was_led_with_last(file: Path) -> None:
    answer = {"role": "assistant", "provider": "anthropic", "model": "m2"}
    add(
        file,
        *chain(
            {"type": "model_change", "provider": "openai", "modelId": "m1"},
            {"type": "thinking_level_change", "thinkingLevel": "high"},
            {"type": "message", "message": answer},
            {"type": "message", "message": {"role": "user"}},
        ),
    )
    found = read_managed_session(file).saved.model
    assert found == ModelChoice("anthropic", "m2", Thinking.HIGH)


def test_what_an_abandoned_branch_says_of_the_model_does_not_count(file: Path) -> None:
    add(
        file,
        {"type": "model_change", "id": "a", "provider": "p", "modelId": "m1"},
        {
            "type": "model_change",
            "id": "b",
            "parentId": "a",
            "provider": "p",
            "modelId": "m2",
        },
        {"type": "thinking_level_change", "id": "c", "parentId": "a", "thinkingLevel": "odd"},
    )
    assert read_managed_session(file).saved.model == ModelChoice("p", "m1", Thinking.OFF)


def test_without_a_model_none_is_told_and_circles_end(file: Path) -> None:
    add(
        file,
        {"type": "thinking_level_change", "id": "a", "parentId": "b", "thinkingLevel": 3},
        {"type": "model_change", "id": "b", "parentId": "a", "provider": "", "modelId": "m"},
    )
    assert read_managed_session(file).saved.model is None


def test_a_session_is_found_by_id_and_by_path(tmp_path: Path, file: Path) -> None:
    assert find(f" {SESSION}\n", tmp_path) == file
    assert find(str(file), tmp_path) == file
    assert find(f"sessions/--project--/{file.name}", tmp_path) == file
    assert find(f"~/agent/sessions/--project--/{file.name}", tmp_path) == file
    assert find(file.name, tmp_path, cwd=str(file.parent)) == file
    plain = begin(tmp_path / "agent" / "sessions" / "--project--" / f"{OTHER}.jsonl", OTHER)
    assert find(OTHER, tmp_path) == plain


@pytest.mark.parametrize("given", [SESSION[:8], SESSION.upper(), SESSION + "0", "scout", ""])
def test_a_part_of_an_id_is_never_accepted(tmp_path: Path, file: Path, given: str) -> None:
    error = not_found(given, tmp_path)
    assert error.trouble.category is Category.INVALID_REQUEST
    assert "full id" in str(error)


def test_a_session_that_is_not_there_is_refused(tmp_path: Path, file: Path) -> None:
    assert "no saved session" in str(not_found(OTHER, tmp_path))
    assert "no saved session" in str(not_found(SESSION, tmp_path, agent_dir=None))
    assert "no saved session" in str(not_found(SESSION, tmp_path, agent_dir=tmp_path / "no"))
    assert "No such file" in str(not_found("/gone.jsonl", tmp_path))
    assert "can be called so" in str(not_found("/gone\0.jsonl", tmp_path))
    assert "no home" in str(not_found("~/x", tmp_path, home=None))


def test_an_id_that_two_files_have_needs_a_path(tmp_path: Path, file: Path) -> None:
    copy = begin(tmp_path / "agent" / "sessions" / "--else--" / file.name)
    error = not_found(SESSION, tmp_path)
    assert error.trouble.category is Category.TARGET_AMBIGUOUS
    assert find(str(copy), tmp_path) == copy


def test_sessions_that_cannot_be_listed_are_no_absence(tmp_path: Path, file: Path) -> None:
    file.parent.chmod(0)
    try:
        error = unprivileged(lambda: not_found(SESSION, tmp_path))
        assert "cannot be read" in str(error)
    finally:
        file.parent.chmod(0o700)


def test_a_path_through_a_link_leads_to_the_same_session(tmp_path: Path, file: Path) -> None:
    (tmp_path / "link").symlink_to(file.parent)
    through = str(tmp_path / "link" / file.name)
    assert same_session_file(through, str(file))
    assert find(through, tmp_path) == file


def test_paths_of_which_one_leads_nowhere_are_not_the_same(tmp_path: Path, file: Path) -> None:
    assert same_session_file("/gone", "/gone")
    assert not same_session_file("/gone", str(file))
    assert not same_session_file(str(file / "below"), str(file))
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    with pytest.raises(ExternalError, match="cannot be compared"):
        same_session_file(str(tmp_path / "circle"), str(file))


@pytest.mark.parametrize("escape", ["\\ud800", "\\u0000"])
def test_a_session_of_a_place_that_no_directory_can_have_is_not_continued(
    file: Path, escape: str
) -> None:
    text = file.read_text("utf-8")
    assert '"/project"' in text
    file.write_text(text.replace('"/project"', f'"/project{escape}"'), "utf-8")
    assert "no directory can be called" in refusal(file)


def test_a_session_whose_definition_is_no_text_is_not_continued(file: Path) -> None:
    text = file.read_text("utf-8")
    assert '"scout"' in text
    file.write_text(text.replace('"scout"', '"scout\\ud800"'), "utf-8")
    assert "does not name its definition" in refusal(file)
