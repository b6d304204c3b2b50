import json
import os
import textwrap
from pathlib import Path

import pytest

from agents.definition import Source, decode_definition, encode_definition
from agents.roster import BUNDLED, Layer, Roster, load_roster
from engine.core.errors import CorruptionError
from engine.core.spec import Backend, Kind, Thinking
from tests.support.privileges import unprivileged

GOOD = "---\ndescription: d\nkind: reader\n---\nLook.\n"


def put(folder: Path, name: str, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(textwrap.dedent(text), encoding="utf-8")


def roster_of(tmp_path: Path) -> Roster:
    return load_roster([Layer(Source.USER, tmp_path)])


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
        load_roster([Layer(source, tmp_path / name)]).definitions["a"].digest
        for source, name in [(Source.USER, "one"), (Source.PROJECT, "two"), (Source.USER, "three")]
    ]
    assert digests[0] == digests[1]
    assert digests[0] != digests[2]
    again = load_roster([Layer(Source.USER, tmp_path / "one")]).definitions["a"]
    assert again.digest == digests[0]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "x.md: must begin with front matter between two lines of three hyphens"),
        ("---\nkind: reader\n", "x.md: its front matter does not end; add a line of three hyphens"),
        (
            GOOD.replace("kind", "role"),
            'x.md: front matter: unknown field "role"; the fields are name,',
        ),
        (GOOD.replace("d\n", "d\nkind: writer\n", 1), "x.md: front matter: line 3: the key 'kind'"),
        (
            GOOD.replace("reader", "planner"),
            'x.md: front matter: kind: "planner" is not one of the kn',
        ),
        (GOOD.replace(": d", ": 5"), "x.md: front matter: description: 5 is not text"),
        (GOOD.replace("kind", "codemode: no\nkind"), 'x.md: front matter: codemode: "no" is n'),
        (GOOD.replace("---\n", "---\n- 1\n", 1), "x.md: front matter: line 2: "),
        ("---\n- 1\n---\nx", "x.md: front matter: [1] is not an object"),
        ("---\n---\nx", "has no description; say in one sentence what it is for"),
        (
            "---\ndescription: d\n---\nx",
            "has no kind, so it is for managed agents only; add the kind",
        ),
        (GOOD.replace("kind", "enabled: false\nkind"), "is disabled; set enabled: true to use it"),
        (GOOD.replace("kind", "bodyMode: append\nkind"), "x.md: bodyMode: there is no definition"),
        (GOOD.replace("kind", "agents: [y, y]\nkind"), "agents: names a definition twice"),
        (GOOD.replace("kind", "agents: [y]\nkind"), 'agents: "y" is not available; correct or'),
        (
            "---\ndescription: d\nrequireSources: true\n---\nx",
            "requireSources: is for readers; remove it",
        ),
        (GOOD.replace("Look.", ""), "has no text below its front matter; describe the agent there"),
        (GOOD + "\0", "x.md: its text holds a NUL character"),
        (GOOD + "y" * 64_000, "x.md: its text may have at most 64000 characters"),
        (GOOD + "y" * (1 << 20), "x.md: the file is longer than 1,048,576 bytes"),
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
    put(tmp_path, "closed.md", GOOD)
    (tmp_path / "closed.md").chmod(0)
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "broken.md").symlink_to("nowhere")
    assert unprivileged(lambda: roster_of(tmp_path)).reasons == {
        "broken": "broken.md: the file cannot be read: No such file or directory",
        "bytes": "bytes.md: is not UTF-8 text",
        "closed": "closed.md: the file cannot be read: Permission denied",
        "pipe": "pipe.md: the file is no regular file",
    }


def test_the_file_name_must_be_a_name(tmp_path: Path) -> None:
    assert "the file's name must be the agent's" in reason_of(tmp_path, GOOD, "Big Name")
    (tmp_path / "Big Name.md").unlink()
    assert "the file's name must be the agent's" in reason_of(tmp_path, GOOD, "Scout")
    (tmp_path / os.fsdecode(b"\xff.md")).write_text(GOOD)
    roster = roster_of(tmp_path)
    assert sorted(roster.reasons) == ['"\\377"', "Scout"]
    # It is told with its file, and that once.
    (fault,) = [each.fault for each in roster.unavailable if each.name != "Scout"]
    assert fault.startswith(f'"{tmp_path}/\\377.md": the file')


def test_a_name_in_the_front_matter_is_the_files(tmp_path: Path) -> None:
    put(tmp_path, "x.md", GOOD.replace("kind", "name: x\nkind"))
    assert list(roster_of(tmp_path).definitions) == ["x"]
    reason = reason_of(tmp_path, GOOD.replace("kind", "name: y\nkind"))
    assert reason == "x.md: front matter: name: must be the file's, x, or be left out"


def test_a_faulty_file_hides_no_other(tmp_path: Path) -> None:
    put(tmp_path, "good.md", GOOD)
    put(tmp_path, "bad.md", "nothing")
    put(tmp_path, "readme.txt", "nothing")
    put(tmp_path, "sample.example.md", "nothing")
    roster = roster_of(tmp_path)
    assert (list(roster.definitions), list(roster.reasons)) == (["good"], ["bad"])


def test_web_tools_are_not_there_and_a_definition_that_lists_them_is_told_so(
    tmp_path: Path,
) -> None:
    put(tmp_path, "a.md", GOOD.replace("kind", "tools: [read, web_search]\nkind"))
    reason = "tools: web_search needs a web extension, which this release does not load"
    assert roster_of(tmp_path).reasons == {"a": reason}


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert load_roster([Layer(Source.USER, tmp_path / "none")]) == Roster({})


def test_an_overlay_changes_what_it_states_and_says_so(tmp_path: Path) -> None:
    put(tmp_path, "scout.md", "---\ntools: [read]\n---\n")
    folders = [BUNDLED, Layer(Source.PROJECT, tmp_path)]
    roster = load_roster(folders)
    below, above = load_roster().definitions["scout"], roster.definitions["scout"]
    assert (above.tools, above.source) == (("read",), Source.PROJECT)
    assert (above.persona, above.description) == (below.persona, below.description)
    assert above.digest != below.digest
    said = ("agent scout: the project definition overlays the preset one",)
    assert (roster.notices_on(["scout"]), roster.notices_on(["builder"])) == (said, ())


def test_an_overlay_cannot_change_the_kind(tmp_path: Path) -> None:
    put(tmp_path, "scout.md", GOOD.replace("reader", "writer"))
    roster = load_roster([BUNDLED, Layer(Source.PROJECT, tmp_path)])
    (fault,) = roster.unavailable
    assert (fault.name, fault.kind) == ("scout", Kind.READER)
    assert fault.reason == "scout.md: an overlay cannot change the kind reader; use another name"
    assert sorted(roster.definitions) == ["builder", "reviewer"]


def test_a_faulty_lower_layer_does_not_spoil_a_whole_upper_one(tmp_path: Path) -> None:
    put(tmp_path / "project", "x.md", "nothing")
    put(tmp_path / "user", "x.md", GOOD)
    roster = load_roster(
        [Layer(Source.PROJECT, tmp_path / "project"), Layer(Source.USER, tmp_path / "user")]
    )
    assert roster.kinds == {"x": Kind.READER}
    (said,) = roster.notices_on(["x", "x"])
    assert said.startswith("agent x: the project definition is left out: x.md: must")


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


def test_definitions_lie_in_folders_below_too(tmp_path: Path) -> None:
    put(tmp_path / "web" / "deep", "x.md", GOOD)
    put(tmp_path, "y.md", GOOD)
    assert list(roster_of(tmp_path).definitions) == ["x", "y"]


def test_a_name_that_stands_twice_in_a_layer_is_unavailable(tmp_path: Path) -> None:
    put(tmp_path / "a", "x.md", GOOD)
    put(tmp_path / "b", "x.md", GOOD)
    reasons = roster_of(tmp_path).reasons
    assert reasons == {"x": "x.md: stands more than once (a/x.md and b/x.md); rename one"}


def test_links_of_a_project_lead_nowhere_else(tmp_path: Path) -> None:
    put(tmp_path / "elsewhere", "x.md", GOOD)
    folder = tmp_path / "repo" / "agents"
    put(folder, "y.md", GOOD)
    (folder / "x.md").symlink_to(tmp_path / "elsewhere" / "x.md")
    (folder / "z.md").symlink_to("y.md")
    (folder / "more").symlink_to(tmp_path / "elsewhere")
    free = load_roster([Layer(Source.USER, folder)])
    assert free.reasons == {"x": "x.md: stands more than once (x.md and more/x.md); rename one"}
    bound = load_roster([Layer(Source.PROJECT, folder, within=tmp_path / "repo")])
    assert sorted(bound.definitions) == ["y", "z"]
    reason = "x.md: is a link that leads out of the repository; put the file itself there"
    assert bound.reasons == {"x": reason}
    left_out = f"{folder / 'more'} is a link that leads out of the repository: it is left out"
    assert bound.notices == (left_out,)


def test_a_link_outside_and_a_file_of_one_name_are_a_fault_of_that_name(tmp_path: Path) -> None:
    put(tmp_path / "elsewhere", "x.md", GOOD)
    folder = tmp_path / "repo"
    put(folder / "b", "x.md", GOOD)
    (folder / "x.md").symlink_to(tmp_path / "elsewhere" / "x.md")
    bound = load_roster([Layer(Source.PROJECT, folder, within=folder)])
    assert (bound.definitions, list(bound.reasons)) == ({}, ["x"])


def test_the_text_of_an_overlay_replaces_or_is_appended(tmp_path: Path) -> None:
    put(tmp_path / "low", "x.md", GOOD)
    put(tmp_path / "low", "y.md", GOOD)
    put(tmp_path / "high", "x.md", "---\nbodyMode: append\n---\nCloser.\n")
    put(tmp_path / "high", "y.md", "---\nbodyMode: replace\n---\nCloser.\n")
    layers = [Layer(Source.PROJECT, tmp_path / "low"), Layer(Source.USER, tmp_path / "high")]
    found = load_roster(layers).definitions
    assert (found["x"].persona, found["y"].persona) == ("Look.\n\nCloser.\n", "Closer.\n")


def test_the_herd_gets_what_was_stated_and_tells_empty_from_unstated(tmp_path: Path) -> None:
    put(
        tmp_path / "low",
        "lead.md",
        """\
        ---
        description: Leads.
        thinking: false
        tools: [read, agent]
        excludeTools: [bash]
        permission: {edit: ask}
        skills: [a, b]
        agents: [helper]
        enabled: false
        systemPromptMode: append
        inheritProjectContext: true
        ---
        Lead.
        """,
    )
    put(tmp_path / "low", "helper.md", "---\ndescription: h\n---\nHelp.\n")
    put(tmp_path / "high", "lead.md", "---\nskills: []\nmodel: a/b\n---\n")
    layers = [Layer(Source.PROJECT, tmp_path / "low"), Layer(Source.USER, tmp_path / "high")]
    roster = load_roster(layers)
    lead, helper = roster.herd["lead"], roster.herd["helper"]
    assert (lead.description, lead.persona, lead.model) == ("Leads.", "Lead.\n", ("a", "b"))
    assert (lead.thinking, lead.tools, lead.exclude_tools) == (
        Thinking.OFF,
        ("read", "agent"),
        ("bash",),
    )
    assert (lead.permission, lead.skills, lead.agents) == ({"edit": "ask"}, (), ("helper",))
    assert (lead.enabled, lead.system_prompt_mode, lead.inherit_project_context) == (
        False,
        "append",
        True,
    )
    assert lead.sources == (Source.PROJECT, Source.USER)
    assert (helper.skills, helper.enabled, helper.kind) == (None, True, None)
    assert (roster.definitions, roster.unavailable) == ({}, ())
    assert sorted(roster.reasons) == ["helper", "lead"]


def test_whatever_refers_to_what_is_unavailable_is_unavailable_too(tmp_path: Path) -> None:
    def refers(name: str, other: str) -> None:
        put(tmp_path, f"{name}.md", f"---\ndescription: d\nagents: [{other}]\n---\nx\n")

    put(tmp_path, "bad.md", "nothing")
    refers("one", "bad")
    refers("two", "one")
    refers("ring-a", "ring-b")
    refers("ring-b", "ring-a")
    put(tmp_path, "off.md", "---\ndescription: d\nenabled: false\n---\nx\n")
    refers("waits", "off")
    roster = roster_of(tmp_path)
    assert sorted(roster.herd) == ["off", "ring-a", "ring-b", "waits"]
    assert roster.reasons["one"] == 'agents: "bad" is not available; correct or remove it'
    assert roster.reasons["two"] == 'agents: "one" is not available; correct or remove it'


def test_an_overlay_with_an_empty_list_empties_it_and_keeps_the_rest(tmp_path: Path) -> None:
    put(tmp_path / "low", "x.md", "---\ndescription: d\ntools: [read]\n---\nLook.\n")
    put(tmp_path / "high", "x.md", "---\ntools: []\nmodel: a/b\n---\n")
    layers = [Layer(Source.PROJECT, tmp_path / "low"), Layer(Source.USER, tmp_path / "high")]
    found = load_roster(layers).herd["x"]
    assert (found.tools, found.model, found.persona) == ((), ("a", "b"), "Look.\n")


def test_a_definition_that_stands_alone_appends_to_nothing(tmp_path: Path) -> None:
    put(tmp_path, "x.md", "---\ndescription: d\nbodyMode: append\n---\nLook.\n")
    put(tmp_path, "y.md", "---\ndescription: d\n---\nLook.\n")
    roster = roster_of(tmp_path)
    assert list(roster.herd) == ["y"]
    assert "bodyMode: there is no definition below" in roster.reasons["x"]


def test_bundled_definitions_serve_the_herd_and_three_of_them_runs() -> None:
    roster = load_roster()
    assert list(roster.herd) == ["builder", "generalist", "implementer", "reviewer", "scout"]
    assert sorted(roster.reasons) == ["generalist", "implementer"]


def test_researcher_of_the_examples_is_unavailable_until_something_reaches_the_web() -> None:
    examples = Layer(Source.USER, Path(__file__).resolve().parents[2] / "examples" / "agents")
    (found,) = load_roster([examples]).unavailable
    assert (found.name, found.kind) == ("researcher", Kind.READER)
    assert found.reason == (
        "tools: web_enable needs a web extension, which this release does not load"
    )
