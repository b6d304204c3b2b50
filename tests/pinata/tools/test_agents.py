"""Agents are discovered with what decides about them, and no more than was asked for."""

from pathlib import Path

import pytest

from agents.definition_file import FrontMatter
from engine.core.errors import UsageError
from pinata import app
from pinata.work.observer import Silence
from tests.support.customs import READER, define, define_for_user, trust
from tests.support.projects import Project
from tests.support.repos import git_env

PRESETS = ["builder", "generalist", "implementer", "reviewer", "scout"]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.create(tmp_path, {"a.txt": "one\n"})


async def test_list_holds_bundled_and_custom_agents_without_their_texts(project: Project) -> None:
    define(project, "historian", READER.replace("kind", "model: acme/deep\nkind"))
    trust(project)
    answer = await project.call("pinata_agents", {})
    listed = {entry["name"]: entry for entry in answer["agents"]}
    assert list(listed) == [
        "builder",
        "generalist",
        "historian",
        "implementer",
        "reviewer",
        "scout",
    ]
    historian = listed["historian"]
    assert historian.pop("digest").isalnum()
    assert historian == {
        "name": "historian",
        "kind": "reader",
        "description": "Looks back.",
        "source": "project",
        "available": True,
        "managed": True,
        "model": "acme/deep",
    }
    assert set(listed["scout"]) == set(historian) - {"model"} | {"digest"}
    assert "notices" not in answer


async def test_one_agent_is_shown_whole(project: Project) -> None:
    scout = await project.call("pinata_agents", {"name": "scout"})
    assert scout == await project.call("pinata_agents", {"name": "scout"})
    assert (scout["tools"], scout["workspace"], scout["source"]) == (
        ["read", "grep", "find", "ls"],
        "live checkout",
        "preset",
    )
    assert scout["defaults"] == {
        "model": None,
        "thinking": None,
        "backend": None,
        "codemode": None,
    }
    assert scout["persona"].startswith("# Scout\n")
    workspaces = [
        (await project.call("pinata_agents", {"name": name}))["workspace"]
        for name in ("builder", "reviewer")
    ]
    assert workspaces == ["own worktree", "reviewed target"]


async def test_defaults_are_those_of_the_definition(project: Project) -> None:
    settings = "model: acme/deep\nthinking: high\nbackend: process\ncodemode: false\nkind"
    define_for_user(project, "historian", READER.replace("kind", settings))
    historian = await project.call("pinata_agents", {"name": "historian"})
    assert historian["defaults"] == {
        "model": "acme/deep",
        "thinking": "high",
        "backend": "process",
        "codemode": False,
    }


async def test_what_cannot_be_used_is_listed_with_its_reason(project: Project) -> None:
    define_for_user(project, "digger", READER.replace("kind", "tools: [read, bash]\nkind"))
    define_for_user(project, "torn", "nothing")
    listed = {one["name"]: one for one in (await project.call("pinata_agents", {}))["agents"]}
    assert listed["digger"] == await project.call("pinata_agents", {"name": "digger"})
    assert listed["digger"]["reason"].startswith("tools: a reader may not have bash; it may have")
    assert (listed["torn"]["kind"], listed["torn"]["available"]) == (None, False)
    assert listed["scout"]["available"]


async def test_definition_without_a_kind_is_for_managed_agents_and_says_what_runs_need(
    project: Project,
) -> None:
    text = "---\ndescription: Minds it.\nmodel: acme/deep\n---\nx\n"
    path = define_for_user(project, "minder", text)
    listed = {one["name"]: one for one in (await project.call("pinata_agents", {}))["agents"]}
    assert listed["minder"] == {
        "name": "minder",
        "kind": None,
        "description": "Minds it.",
        "source": "user",
        "digest": None,
        "available": False,
        "reason": "has no kind, so it is for managed agents only; add the kind reader, writer or "
        "reviewer to use it in runs",
        "file": str(path),
        "managed": True,
        "model": "acme/deep",
    }
    assert [name for name in PRESETS if listed[name]["managed"]] == PRESETS
    assert [name for name in PRESETS if listed[name]["available"]] == [
        "builder",
        "reviewer",
        "scout",
    ]


async def test_managed_one_is_shown_whole_with_what_holds_when_a_session_starts_it(
    project: Project,
) -> None:
    front = (
        "description: Splits.\nagents: [scout, implementer]\ntools: [agent, read]\n"
        "thinking: high\nbackend: process\nexcludeTools: [bash]\npermission: {a: [1]}\n"
    )
    path = define_for_user(project, "foreman", f"---\n{front}---\nSplit.\n")
    foreman = await project.call("pinata_agents", {"name": "foreman"})
    assert (foreman["managed"], foreman["enabled"], foreman["file"]) == (True, True, str(path))
    assert (foreman["tools"], foreman["delegatesTo"]) == (["read"], ["scout", "implementer"])
    assert foreman["workspace"] == "its owner's folder"
    assert (foreman["defaults"]["thinking"], foreman["defaults"]["backend"]) == ("high", "process")
    assert foreman["settings"] == {"excludeTools": ["bash"], "permission": {"a": [1]}}
    assert foreman["persona"] == "Split.\n"
    implementer = await project.call("pinata_agents", {"name": "implementer"})
    assert (implementer["tools"], implementer["delegatesTo"]) == (None, [])


async def test_reader_that_must_name_its_sources_is_shown_to(project: Project) -> None:
    define_for_user(project, "strict", READER.replace("kind", "requireSources: true\nkind"))
    define_for_user(project, "loose", READER.replace("kind", "requireSources: false\nkind"))
    strict, loose = [
        await project.call("pinata_agents", {"name": name}) for name in ("strict", "loose")
    ]
    assert (strict["settings"], loose["settings"]) == ({"requireSources": True}, {})


async def test_every_setting_that_a_definition_can_state_is_shown(project: Project) -> None:
    names = {field.alias for field in FrontMatter.model_fields.values()}
    plain = {"name", "description", "kind", "bodyMode", "requireSources"}
    lists = {"tools", "excludeTools", "skills", "extensions", "agents"}
    words = {
        "model": "acme/deep",
        "thinking": "high",
        "backend": "process",
        "systemPromptMode": "append",
        "permission": "all",
    }
    flags = {name for name in names if name is not None} - plain - lists - set(words)
    stated = {**dict.fromkeys(lists, "[]"), **words, **dict.fromkeys(flags, "true")}
    front = "".join(f"{name}: {value}\n" for name, value in stated.items())
    define_for_user(project, "full", f"---\ndescription: d\n{front}---\nx\n")
    full = await project.call("pinata_agents", {"name": "full"})
    shown = {*full, *full["defaults"], *full["settings"]} | {"agents"}
    assert set(stated) <= shown
    assert {*full["settings"]} == set(stated) - {"tools", "agents", "enabled", *full["defaults"]}


async def test_what_managed_agents_cannot_be_started_from_says_why(project: Project) -> None:
    define_for_user(project, "off", "---\ndescription: d\nenabled: false\n---\nx\n")
    define_for_user(project, "idle", READER.replace("kind", "enabled: false\nkind"))
    define_for_user(project, "leans", READER.replace("kind", "agents: [off]\nkind"))
    define_for_user(project, "lost", "---\ndescription: d\nagents: [nobody]\n---\nx\n")
    listed = {one["name"]: one for one in (await project.call("pinata_agents", {}))["agents"]}
    off, idle, leans, lost = (listed[name] for name in ("off", "idle", "leans", "lost"))
    assert [one["managed"] for one in (off, idle, leans, lost)] == [False] * 4
    assert off["reason"] == idle["reason"] == "is disabled; set enabled: true to use it"
    assert leans["available"]
    assert leans["managedReason"] == (
        'the definition "leans" delegates to "off", which is disabled'
    )
    assert lost["reason"] == 'agents: "nobody" is not available; correct or remove it'
    assert lost == await project.call("pinata_agents", {"name": "lost"})
    shown = [await project.call("pinata_agents", {"name": name}) for name in ("off", "idle")]
    assert [one["enabled"] for one in shown] == [False, False]
    assert [one["tools"] for one in shown] == [None, ["read", "grep", "find", "ls"]]
    leaning = await project.call("pinata_agents", {"name": "leans"})
    assert leaning["delegatesTo"] == ["off"]


async def test_unknown_name_is_refused_naming_the_known(project: Project) -> None:
    with pytest.raises(UsageError) as caught:
        await project.call("pinata_agents", {"name": "nobody"})
    assert str(caught.value) == (
        'name: "nobody" is not an installed definition; use builder, generalist, '
        "implementer, reviewer or scout"
    )


async def test_project_that_is_not_trusted_is_ignored_until_the_caller_says(
    project: Project,
) -> None:
    folder = define(project, "scout", "---\nthinking: high\n---\n").parent
    answer = await project.call("pinata_agents", {})
    assert answer["notices"] == [
        (
            f"{folder} is ignored: the project is not trusted; "
            "pass --trust-project, or decide with /trust in Pi"
        )
    ]
    context = app.build_context(project.env, project.repo.root, Silence(), project_trust=True)
    answer = await app.call_tool(context, "pinata_agents", {"name": "scout"})
    assert (answer["source"], answer["defaults"]["thinking"]) == ("project", "high")
    assert answer["notices"] == ["agent scout: the project definition overlays the preset one"]


async def test_agents_are_told_outside_of_any_repository_too(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    context = app.build_context(git_env(tmp_path / "home"), tmp_path, Silence())
    answer = await app.call_tool(context, "pinata_agents", {})
    assert [one["name"] for one in answer["agents"]] == PRESETS
    assert answer["notices"] == [f"no project's definitions: {tmp_path} is not in a Git repository"]
