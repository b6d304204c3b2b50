"""The reference of the commands is whole and true: usage, arguments, exit codes and screens."""

import re
from pathlib import Path

import pytest

from pinata.faces import cli
from pinata.faces.arguments import parse
from tests.support.projects import Project
from tests.support.reference import FOLDER, Page
from tests.support.screens import APPROVED, ORDER, REJECTED, Screen, Stage

NAMES = sorted(path.stem for path in (FOLDER / "commands").iterdir())
PAGES = {name: Page(f"commands/{name}.md") for name in NAMES}
CODES = {"0", "1", "2", "3", "4", "5"}
# Their examples need a client, a terminal, a Pi, agents or a run at work, and have their own tests.
NO_SCREEN = {"cancel", "herd", "host", "install", "mcp", "pi", "steer", "uninstall"}


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def help_of(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit):
        parse([name, "--help"])
    return capsys.readouterr().out


def test_every_command_has_its_page(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--help"])
    listed = re.findall(r"^    (\w+)\b", capsys.readouterr().out, re.MULTILINE)
    assert sorted(listed) == NAMES
    index = Page("index.md").text
    assert sorted(set(re.findall(r"\]\(commands/(\w+)\.md\)", index))) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_usage_is_what_help_says(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    (usage,) = re.findall(r"^usage: (.*?)\n\n", help_of(name, capsys), re.DOTALL)
    assert PAGES[name].block("text usage").split() == usage.split()


@pytest.mark.parametrize("name", NAMES)
def test_arguments_are_those_that_help_lists(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    listed = re.findall(r"^  (--[\w-]+|\w+)(?: |$)", help_of(name, capsys), re.MULTILINE)
    heading = next(iter(PAGES[name].sections))
    assert sorted(row.name for row in PAGES[name].rows(heading)) == sorted(listed)


@pytest.mark.parametrize("name", NAMES)
def test_exit_codes_are_some_of_those_there_are(name: str) -> None:
    codes = [row.name for row in PAGES[name].rows("Exit codes")]
    assert codes[0] == "0"
    assert codes == sorted(set(codes) & CODES)


def test_configuration_of_a_client_starts_the_server() -> None:
    server = PAGES["mcp"].json("client")["mcpServers"]["pinata"]
    assert server.pop("command") == "pinata"
    assert parse(server.pop("args")).command == "mcp"
    assert server == {}


@pytest.mark.slow
def test_unknown_run_ends_with_2_wherever_a_page_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    project = Project.create(tmp_path)
    monkeypatch.chdir(project.repo.root)
    more = {
        "repair": ["fix", "--feedback", "Mend it."],
        "steer": ["fix", "Mind the tests."],
        "transcript": ["fix"],
        "rollback": ["--confirm"],
    }
    about_runs = [name for name, page in PAGES.items() if "| `run` |" in page.text]
    assert len(about_runs) == 13
    for name in about_runs:
        assert "2" in [row.name for row in PAGES[name].rows("Exit codes")]
        assert cli.main([name, "zz", *more.get(name, [])], project.env) == 2
        assert "no stored run's id starts like this" in capfd.readouterr().err


@pytest.mark.slow
def test_screens_are_what_one_gets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert {*ORDER} | NO_SCREEN == set(NAMES)
    stage = Stage.create(tmp_path, capfd)
    monkeypatch.chdir(stage.project.repo.root)
    stage.plays(APPROVED)
    found: list[Screen] = []
    for name in ORDER:
        if name == "repair":
            stage.plays(REJECTED)
            assert stage.give("pinata run job.json")[1] == 1
        if name == "resume":
            stage.plays(APPROVED)
            assert stage.give("pinata run job.json")[1] == 0
            stage.lose()
        if name == "rerun":
            stage.plays(APPROVED)
            assert stage.give("pinata run job.json")[1] == 0
            stage.lose(at_work=True)
        found += stage.screens(name)
    assert [each for each in found if not each.is_true or each.code] == []
    assert len(found) == len(ORDER) + 2
