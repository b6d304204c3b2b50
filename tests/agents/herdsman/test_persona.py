from pathlib import Path

import pytest

from agents.definition import Source
from agents.herd_definition import HerdDefinition
from agents.herdsman.errors import Category, HerdError
from agents.herdsman.persona import expand_persona
from agents.roster import Layer, load_roster


def definition(folder: Path, text: str) -> HerdDefinition:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "x.md").write_text(f"---\ndescription: d\n---\n{text}\n", "utf-8")
    return load_roster([Layer(Source.USER, folder)]).herd["x"]


def refusal(given: HerdDefinition, home: Path | None = None) -> str:
    with pytest.raises(HerdError) as caught:
        expand_persona(given, home)
    assert caught.value.trouble.category is Category.INVALID_REQUEST
    assert f"correct the line in {given.file}, or" in caught.value.trouble.next_action
    return str(caught.value)


def test_text_without_references_stays_as_it_is(tmp_path: Path) -> None:
    text = "Mail me@example.org.\n\n @not-a-file\n@ neither\n@\nEnd."
    given = definition(tmp_path, text)
    assert expand_persona(given, None) == given.persona == text + "\n"


def test_a_line_that_names_a_file_is_replaced_by_it(tmp_path: Path) -> None:
    for place in ("rules.md", "home/mine.md", "other/far away.md"):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).write_text(f"{place}\n@rules.md\n", "utf-8")
    text = f"Read:\n@rules.md\n@~/mine.md\n@{tmp_path}/other/far away.md\nEnd."
    given = definition(tmp_path, text)
    assert expand_persona(given, tmp_path / "home") == (
        "Read:\nrules.md\n@rules.md\nhome/mine.md\n@rules.md\nother/far away.md\n@rules.md\nEnd.\n"
    )


def test_a_file_stands_there_once_and_not_if_the_agent_gets_it_anyway(tmp_path: Path) -> None:
    (tmp_path / "one.md").write_text("one", "utf-8")
    (tmp_path / "two.md").write_text("two", "utf-8")
    (tmp_path / "link.md").symlink_to("one.md")
    given = definition(tmp_path, "@one.md\n@link.md\n@./one.md\n@two.md")
    assert expand_persona(given, None) == "one\ntwo\n"
    assert expand_persona(given, None, without={str(tmp_path / "one.md")}) == "two\n"


def test_the_users_keys_are_no_part_of_a_text(tmp_path: Path) -> None:
    keys = tmp_path / "auth.json"
    keys.write_text("{}", "utf-8")
    (tmp_path / "notes.md").symlink_to("auth.json")
    given = definition(tmp_path, "@notes.md")
    with pytest.raises(HerdError, match="holds the user's keys for models"):
        expand_persona(given, None, secrets=[keys])


def test_files_that_are_too_long_together_are_refused(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number}.md").write_bytes(b"x" * (1 << 20))
    names = [f"@{number}.md" for number in range(5)]
    assert len(expand_persona(definition(tmp_path, "\n".join(names[:4])), None)) > 4 << 20
    assert '"4.md"' in refusal(definition(tmp_path, "\n".join(names)))


def test_references_start_from_the_file_that_holds_them(tmp_path: Path) -> None:
    lower, upper = tmp_path / "lower", tmp_path / "upper"
    for folder in (lower, upper):
        folder.mkdir()
        (folder / "rules.md").write_text(folder.name, "utf-8")
    (lower / "x.md").write_text("---\ndescription: d\n---\n@rules.md\n", "utf-8")
    (upper / "x.md").write_text("---\nbodyMode: append\n---\n@rules.md\n", "utf-8")
    layers = [Layer(Source.PROJECT, lower), Layer(Source.USER, upper)]
    assert expand_persona(load_roster(layers).herd["x"], None) == "lower\n\nupper\n"


def test_an_empty_file_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "empty.md").write_text("\n", "utf-8")
    assert expand_persona(definition(tmp_path, "a\n@empty.md\nb"), None) == "a\nb\n"


def test_what_cannot_be_put_in_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff")
    (tmp_path / "nul").write_bytes(b"a\0b")
    (tmp_path / "long").write_bytes(b"a" * (1 << 20) + b"b")
    assert "cannot be read: No such file" in refusal(definition(tmp_path, "@gone.md"))
    assert "is no regular file" in refusal(definition(tmp_path, "@."))
    assert "is not UTF-8" in refusal(definition(tmp_path, "@binary"))
    assert "NUL" in refusal(definition(tmp_path, "@nul"))
    assert "longer than" in refusal(definition(tmp_path, "@long"))
    assert "no home" in refusal(definition(tmp_path, "@~/x"))
