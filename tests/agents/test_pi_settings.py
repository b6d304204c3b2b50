"""What a definition says to the Pi that runs its agent."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agents.definition import Source, decode_definition, encode_definition
from agents.pi_settings import NOTHING_SAID, PiSettings
from agents.roster import Layer, Roster, load_roster

NEUTRAL = ("--no-skills", "--no-extensions", "--no-context-files")


def roster_of(folder: Path, *lines: str) -> Roster:
    """Return a roster with one reader, `x`, with these lines in its front matter."""
    front = "\n".join(["description: d", "kind: reader", *lines])
    (folder / "x.md").write_text(f"---\n{front}\n---\nLook.\n")
    return load_roster([Layer(Source.USER, folder)])


def settings_of(folder: Path, *lines: str) -> PiSettings:
    """Return what these lines of a definition say."""
    return roster_of(folder, *lines).definitions["x"].pi


def test_a_definition_that_says_nothing_has_a_pi_that_knows_nothing(tmp_path: Path) -> None:
    assert settings_of(tmp_path) == NOTHING_SAID
    assert NOTHING_SAID.options("/home/robin") == NEUTRAL
    assert NOTHING_SAID.offered(("read", "ls")) == ("read", "ls")


def test_everything_that_can_be_said_becomes_a_word_of_the_command_line(tmp_path: Path) -> None:
    found = settings_of(
        tmp_path,
        "systemPromptMode: replace",
        "excludeTools: [f*, ls]",
        "inheritSkills: true",
        "skills: [~/law, /opt/tax]",
        "extensions: ['builtin:tool_search', ~/watch.ts]",
        "inheritProjectContext: true",
    )
    assert found.prompt == "replace"
    assert found.offered(("read", "grep", "find", "ls")) == ("read", "grep")
    assert " ".join(found.options("/home/robin")) == (
        "--skill /home/robin/law --skill /opt/tax"
        " --no-extensions -e builtin:tool_search -e /home/robin/watch.ts"
    )
    assert "~/law" in found.options(None)


def test_what_is_switched_off_stays_off_whatever_is_listed(tmp_path: Path) -> None:
    found = settings_of(
        tmp_path,
        "noSkills: true",
        "inheritSkills: true",
        "skills: [/opt/tax]",
        "noExtensions: true",
        "extensions: [/opt/watch.ts]",
    )
    assert found == NOTHING_SAID


@pytest.mark.parametrize("name", ["noTools", "noBuiltinTools"])
def test_an_agent_without_tools_gets_those_that_are_listed_and_no_other(
    tmp_path: Path, name: str
) -> None:
    assert settings_of(tmp_path, f"{name}: true").offered(("read",)) == ()
    assert settings_of(tmp_path, f"{name}: true", "tools: [read]").offered(("read",)) == ("read",)


@pytest.mark.parametrize("line", ["extensions: [./x.ts]", "skills: [law]", "skills: ['~robin/x']"])
def test_nothing_is_loaded_from_where_an_agent_works(tmp_path: Path, line: str) -> None:
    roster = roster_of(tmp_path, line)
    assert "x" not in roster.definitions
    assert roster.reasons["x"].endswith("must be an absolute path, or start with ~/")


def test_it_is_stored_with_a_run_and_counts_in_the_digest(tmp_path: Path) -> None:
    plain = roster_of(tmp_path).definitions["x"]
    assert "pi" not in encode_definition(plain)
    said = replace(plain, pi=PiSettings(excluded=("ls",), skills=("/opt/tax",)))
    assert said.digest != plain.digest
    stored = json.loads(json.dumps(encode_definition(said)))
    assert decode_definition(stored) == said
