"""The command line takes what is meant and refuses the rest in one sentence."""

import pytest

from engine.core.errors import UsageError
from pinata.faces.arguments import parse

pytestmark = pytest.mark.smoke


def test_arguments_are_read_by_name() -> None:
    given = parse(["status", "ab", "fix", "--detail", "result", "--json"])
    assert (given.command, given.run, given.task) == ("status", "ab", "fix")
    assert (given.detail, given.json, given.limit) == ("result", True, None)
    assert parse(["rollback", "ab", "--confirm"]).confirm is True


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "command"),
        (["fly"], "invalid choice: 'fly'"),
        (["run"], "job"),
        (["run", "a", "b"], "unrecognized arguments: b; see pinata run --help"),
        (["herd", "list", "b"], "unrecognized arguments: b; see pinata herd list --help"),
        (["run", "a", "--js"], "unrecognized arguments: --js"),
        (["status", "--limit", "x"], "invalid int value"),
        (["rollback", "--confirm"], "run"),
    ],
)
def test_arguments_that_cannot_be_meant_name_the_fault_and_the_help(
    arguments: list[str], says: str
) -> None:
    with pytest.raises(UsageError, match=r"--help$") as caught:
        parse(arguments)
    assert says in str(caught.value)


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["run", "--help"]])
def test_questions_about_the_program_end_well(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(arguments)
    assert caught.value.code == 0
    assert "pinata" in capsys.readouterr().out
