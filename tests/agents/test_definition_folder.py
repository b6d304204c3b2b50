from pathlib import Path

import pytest

from agents import definition_folder
from agents.definition_folder import MOST_FILES, find_definition_files
from tests.support.privileges import unprivileged


def test_examples_and_other_files_are_no_definitions(tmp_path: Path) -> None:
    for name in ("a.md", "b.example.md", "c.MD", "d.txt", ".md"):
        (tmp_path / name).touch()
    assert sorted(find_definition_files(tmp_path).files) == [".md", "a"]


def test_links_in_a_circle_are_followed_once(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "a.md").touch()
    (tmp_path / "agents" / "loop").symlink_to(tmp_path / "agents")
    (tmp_path / "agents" / "self").symlink_to("self")
    (tmp_path / "start").symlink_to(tmp_path / "agents")
    found = find_definition_files(tmp_path / "start")
    assert found.files == {"a": [tmp_path / "start" / "a.md"]}
    assert found.notices == []


@pytest.mark.slow
def test_too_many_files_are_cut_off_with_a_notice(tmp_path: Path) -> None:
    for number in range(MOST_FILES + 10):
        (tmp_path / f"a{number:05}.md").touch()
    found = find_definition_files(tmp_path)
    assert len(found.files) == MOST_FILES
    assert found.notices == [f"{tmp_path} holds more than 1,000 definitions: the rest is left out"]


def test_a_folder_full_of_other_things_is_left_with_a_notice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(definition_folder, "MOST_ENTRIES", 20)
    for folder in ("b", "c"):
        (tmp_path / folder).mkdir()
        for number in range(10):
            (tmp_path / folder / str(number)).touch()
    (tmp_path / "a.md").touch()
    (tmp_path / "c" / "late.md").touch()
    found = find_definition_files(tmp_path)
    assert list(found.files) == ["a"]
    assert found.notices == [f"{tmp_path} holds too much besides definitions: the rest is left out"]
    for number in range(4):
        (tmp_path / "b" / str(number)).unlink()
    assert list(find_definition_files(tmp_path).files) == ["a", "late"]


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir()
    folder.chmod(0)
    found = unprivileged(lambda: find_definition_files(tmp_path))
    folder.chmod(0o700)
    assert found.notices == [f"{folder} cannot be read: Permission denied"]
    (tmp_path / "file").touch()
    assert find_definition_files(tmp_path / "file").notices == [
        f"{tmp_path / 'file'} cannot be read: Not a directory"
    ]


def test_a_folder_whose_contents_cannot_be_looked_at_holds_no_folders(tmp_path: Path) -> None:
    (tmp_path / "in" / "sub").mkdir(parents=True)
    (tmp_path / "in" / "link").symlink_to("sub")
    (tmp_path / "in").chmod(0o400)
    found = unprivileged(lambda: find_definition_files(tmp_path))
    (tmp_path / "in").chmod(0o700)
    assert found.files == {}


def test_a_folder_that_cannot_be_reached_is_named(tmp_path: Path) -> None:
    (tmp_path / "closed" / "agents").mkdir(parents=True)
    (tmp_path / "closed").chmod(0)
    found = unprivileged(lambda: find_definition_files(tmp_path / "closed" / "agents"))
    (tmp_path / "closed").chmod(0o700)
    assert found.notices == [f"{tmp_path / 'closed' / 'agents'} cannot be read: Permission denied"]
