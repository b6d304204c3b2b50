import json
import textwrap
from pathlib import Path

import pytest

from agents.definition import Source, decode_definition, encode_definition
from agents.roster import BUNDLED_FOLDER, Roster, load_roster
from engine.core.errors import CorruptionError
from engine.core.spec import Backend, Kind, Thinking

GOOD = "---\ndescription: d\nkind: reader\n---\nLook.\n"


def put(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(textwrap.dedent(text), encoding="utf-8")


def roster_of(tmp_path: Path, *, web_tools: bool = False) -> Roster:
    return load_roster([(Source.USER, tmp_path)], web_tools=web_tools)


def reason_of(tmp_path: Path, text: str, name: str = "x") -> str:
    put(tmp_path, f"{name}.md", text)
    roster = roster_of(tmp_path)
    assert roster.definitions == {}
    return roster.reasons[name]


def test_the_bundled_definitions_are_complete() -> None:
    roster = load_roster()
    assert roster.kinds == {
        "builder": Kind.WRITER,
        "reviewer": Kind.REVIEWER,
        "scout": Kind.READER,
    }
    assert (roster.unavailable, roster.notices) == ((), ())
    tools = {name: definition.tools for name, definition in roster.definitions.items()}
    assert tools == {
        "builder": ("read", "bash", "edit", "write"),
        "reviewer": ("read", "grep", "find", "ls"),
        "scout": ("read", "grep", "find", "ls"),
    }
    assert {each.source for each in roster.definitions.values()} == {Source.PRESET}


def test_every_setting_is_read(tmp_path: Path) -> None:
    put(
        tmp_path,
        "historian.md",
        """\
        ---
        description: Knows what was.
        kind: reader
        tools: [grep, read]
        model: acme/deep/thought
        thinking: off
        backend: in-process
        codemode: false
        requireSources: true
        ---

        # Historian

        Look back.
        """,
    )
    (found,) = roster_of(tmp_path).definitions.values()
    assert (found.name, found.kind, found.description) == (
        "historian",
        Kind.READER,
        "Knows what was.",
    )
    assert found.tools == ("grep", "read")
    assert found.persona == "# Historian\n\nLook back.\n"
    assert found.model == ("acme", "deep/thought")
    assert (found.thinking, found.backend) == (Thinking.OFF, Backend.IN_PROCESS)
    assert (found.codemode, found.require_sources, found.source) == (False, True, Source.USER)


def test_tools_that_are_not_listed_are_those_of_the_kind(tmp_path: Path) -> None:
    put(tmp_path, "a.md", GOOD)
    put(tmp_path, "b.md", GOOD.replace("reader", "writer"))
    tools = {name: each.tools for name, each in roster_of(tmp_path).definitions.items()}
    assert tools == {
        "a": ("read", "grep", "find", "ls"),
        "b": ("read", "bash", "edit", "write"),
    }


def test_the_digest_follows_what_the_agent_is_and_nothing_else(tmp_path: Path) -> None:
    put(tmp_path / "one", "a.md", GOOD)
    put(tmp_path / "two", "a.md", "\ufeff" + GOOD.replace("\n", "\r\n") + "\n\n")
    put(tmp_path / "three", "a.md", GOOD.replace("Look.", "Look!"))
    digests = [
        load_roster([(source, tmp_path / name)]).definitions["a"].digest
        for source, name in [(Source.USER, "one"), (Source.PROJECT, "two"), (Source.USER, "three")]
    ]
    assert digests[0] == digests[1]
    assert digests[0] != digests[2]
    again = load_roster([(Source.USER, tmp_path / "one")]).definitions["a"]
    assert again.digest == digests[0]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "x.md: must begin with front matter between two lines of three hyphens"),
        ("---\nkind: reader\n", "x.md: its front matter does not end; add a line of three hyphens"),
        (
            GOOD.replace("kind", "role"),
            'x.md: front matter: unknown field "role"; the fields are descr',
        ),
        (GOOD.replace("d\n", "d\nkind: writer\n", 1), "x.md: front matter: line 3: the key 'kind'"),
        (
            GOOD.replace("reader", "planner"),
            'x.md: front matter: kind: "planner" is not one of the kn',
        ),
        (GOOD.replace(": d", ": 5"), "x.md: front matter: description: 5 is not text; it must be"),
        (GOOD.replace("kind", "codemode: no\nkind"), 'x.md: front matter: codemode: "no" is n'),
        (GOOD.replace("---\n", "---\n- 1\n", 1), "x.md: front matter: line 2: "),
        ("---\n- 1\n---\nx", "x.md: front matter: [1] is not an object"),
        ("---\n---\nx", "has no description; say in one sentence what it is for"),
        ("---\ndescription: d\n---\nx", "has no kind; add reader, writer or reviewer to use it in"),
        (GOOD.replace("Look.", ""), "has no text below its front matter; describe the agent there"),
        (GOOD + "\0", "x.md: its text holds a NUL character"),
        (GOOD + "y" * 64_000, "x.md: its text may have at most 64000 characters"),
        (GOOD + "y" * (1 << 20), "x.md: is larger than 1 MiB"),
        (
            GOOD.replace("kind", "tools: [read, bash]\nkind"),
            "tools: a reader may not have bash; it",
        ),
        (
            GOOD.replace("kind", "tools: [read, read]\nkind"),
            "tools: names a tool twice; remove one",
        ),
        (GOOD.replace("kind", "tools: []\nkind"), "tools: is empty; leave it out"),
        (GOOD.replace("kind", "tools: [web_search]\nkind"), "tools: web_search needs a web exten"),
        (
            GOOD.replace("kind", "model: acme\nkind"),
            "model: must be a provider and an id with a sl",
        ),
        (
            GOOD.replace("reader", "writer\nrequireSources: true"),
            "requireSources: is for readers; remove it",
        ),
    ],
)
def test_a_faulty_definition_is_unavailable_with_its_reason(
    tmp_path: Path, text: str, reason: str
) -> None:
    assert reason_of(tmp_path, text).startswith(reason)


def test_a_file_that_is_not_text_or_not_readable_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "bytes.md").write_bytes(b"\xff")
    (tmp_path / "folder.md").mkdir()
    assert roster_of(tmp_path).reasons == {
        "bytes": "bytes.md: is not UTF-8 text",
        "folder": "folder.md: cannot be read (Is a directory)",
    }


def test_the_file_name_must_be_a_name(tmp_path: Path) -> None:
    assert "the file's name must be the agent's" in reason_of(tmp_path, GOOD, "Big Name")


def test_a_faulty_file_hides_no_other(tmp_path: Path) -> None:
    put(tmp_path, "good.md", GOOD)
    put(tmp_path, "bad.md", "nothing")
    put(tmp_path, "readme.txt", "nothing")
    put(tmp_path, "sample.example.md", "nothing")
    roster = roster_of(tmp_path)
    assert (list(roster.definitions), list(roster.reasons)) == (["good"], ["bad"])


def test_web_tools_are_for_readers_when_something_provides_them(tmp_path: Path) -> None:
    put(tmp_path, "a.md", GOOD.replace("kind", "tools: [read, web_search]\nkind"))
    assert roster_of(tmp_path, web_tools=True).definitions["a"].tools == ("read", "web_search")


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert roster_of(tmp_path / "none") == Roster({})


def test_an_overlay_changes_what_it_states_and_says_so(tmp_path: Path) -> None:
    put(tmp_path, "scout.md", "---\ntools: [read]\n---\n")
    folders = [(Source.PRESET, BUNDLED_FOLDER), (Source.PROJECT, tmp_path)]
    roster = load_roster(folders)
    below, above = load_roster().definitions["scout"], roster.definitions["scout"]
    assert (above.tools, above.source) == (("read",), Source.PROJECT)
    assert (above.persona, above.description) == (below.persona, below.description)
    assert above.digest != below.digest
    assert roster.notices == ("agent scout: the project definition overlays the preset one",)


def test_an_overlay_cannot_change_the_kind(tmp_path: Path) -> None:
    put(tmp_path, "scout.md", GOOD.replace("reader", "writer"))
    roster = load_roster([(Source.PRESET, BUNDLED_FOLDER), (Source.PROJECT, tmp_path)])
    assert roster.reasons == {
        "scout": "scout.md: an overlay cannot change the kind reader; use another name"
    }
    assert sorted(roster.definitions) == ["builder", "reviewer"]


def test_a_faulty_lower_layer_does_not_spoil_a_whole_upper_one(tmp_path: Path) -> None:
    put(tmp_path / "project", "x.md", "nothing")
    put(tmp_path / "user", "x.md", GOOD)
    roster = load_roster([(Source.PROJECT, tmp_path / "project"), (Source.USER, tmp_path / "user")])
    assert roster.kinds == {"x": Kind.READER}
    assert roster.notices[0].startswith("agent x: the project definition is left out: x.md: must")


def test_a_stored_definition_is_read_back_as_it_was(tmp_path: Path) -> None:
    text = GOOD.replace("kind", "model: a/b\nthinking: high\nbackend: process\nkind")
    put(tmp_path, "full.md", text)
    definitions = {**load_roster().definitions, **roster_of(tmp_path).definitions}
    for definition in definitions.values():
        stored = json.loads(json.dumps(encode_definition(definition)))
        assert decode_definition(stored) == definition


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"persona": "other"}, "the stored definition 'scout' is not what its digest says"),
        ({"thinking": "much"}, 'a stored definition is damaged: thinking: "much" is not one'),
        ({"kind": "planner"}, 'a stored definition is damaged: kind: "planner" is not one'),
        ({"more": 1}, 'a stored definition is damaged: unknown field "more"'),
    ],
)
def test_a_stored_definition_that_was_changed_is_refused(
    changes: dict[str, object], message: str
) -> None:
    scout = load_roster().definitions["scout"]
    stored: dict[str, object] = {**encode_definition(scout), **changes}
    with pytest.raises(CorruptionError) as caught:
        decode_definition(stored)
    assert str(caught.value).startswith(message)
