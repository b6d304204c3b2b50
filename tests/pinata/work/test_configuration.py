"""What lies in files comes together below what the run says."""

import json
import os
from pathlib import Path

import pytest

from engine.core.errors import UsageError
from engine.core.spec import Mode, RunSpec
from pinata.work.configuration import Configuration, read_configuration
from pinata.work.trust import Project
from tests.support.jobs import accepted, builder, job, readable, scout
from tests.support.privileges import unprivileged


class Files:
    """A user's file and a project's."""

    def __init__(self, folder: Path) -> None:
        self.agent_dir = folder / "pi"
        self.root = folder / "repo"
        self.user = self.agent_dir / "pinata.json"
        self.project = self.root / ".pi" / "pinata.json"
        self.user.parent.mkdir()
        self.project.parent.mkdir(parents=True)

    def read(self, *, objection: str | None = None) -> Configuration:
        return read_configuration(self.agent_dir, Project(self.root, objection))

    def refusal(self) -> str:
        with pytest.raises(UsageError) as caught:
            unprivileged(self.read)
        return readable(caught.value)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def spec_of(configuration: Configuration, **config: object) -> RunSpec:
    return accepted(job(scout(), config=config), layers=configuration.layers)


def test_settings_of_user_project_and_run_hold_together(files: Files) -> None:
    files.user.write_text(json.dumps({"limits": {"maxTurns": 7, "repairs": 5}, "codemode": False}))
    files.project.write_text(json.dumps({"limits": {"taskMs": 5000, "repairs": 1}}))
    spec = spec_of(files.read(), mode="observe", limits={"concurrency": 3})
    limits = spec.config.limits
    assert (limits.max_turns, limits.task_ms, limits.repairs, limits.concurrency) == (7, 5000, 1, 3)
    assert (spec.config.mode, spec.config.codemode) == (Mode.OBSERVE, False)


def test_models_merge_entry_by_entry_and_lists_are_replaced(files: Files) -> None:
    def model(id_: str) -> dict[str, str]:
        return {"provider": "acme", "id": id_, "thinking": "off"}

    user = {
        "models": {"default": model("low"), "scout": model("low")},
        "fallbacks": {"scout": [model("one"), model("two")]},
        "passEnv": ["ONE"],
    }
    files.user.write_text(json.dumps(user))
    project = {"models": {"scout": model("high")}, "fallbacks": {"scout": []}, "passEnv": ["TWO"]}
    files.project.write_text(json.dumps(project))
    config = spec_of(files.read()).config
    assert {name: one.id for name, one in config.models.items()} == {
        "default": "low",
        "scout": "high",
    }
    assert (config.fallbacks["scout"], config.pass_env) == ((), ("TWO",))


def test_files_that_are_not_there_say_nothing(files: Files) -> None:
    assert files.read() == Configuration()
    assert read_configuration(None, None) == Configuration()
    (files.root / ".pi").rmdir()
    (files.root / ".pi").write_text("a file")
    assert files.read() == Configuration()


def test_each_file_is_judged_by_itself(files: Files) -> None:
    files.user.write_text('{"mode": "lean"}')
    files.project.write_text('{"colour": 1}')
    assert files.refusal().startswith(f'{files.project}: unknown field "colour"; the fields are ')
    files.project.write_text('{"limits": {"maxTurns": 0}}')
    assert files.refusal().startswith(f"{files.project}: limits.maxTurns: 0 is too small")
    files.user.write_text('{"passEnv": ["NODE_OPTIONS"]}')
    assert files.refusal().startswith(f'{files.user}: passEnv[0]: "NODE_OPTIONS" is refused')


def test_retired_settings_are_ignored_with_a_notice_each(files: Files) -> None:
    files.user.write_text('{"pi": 1, "limits": {"startupMs": 1}}')
    assert [notice.partition(" no ")[0] for notice in spec_of(files.read()).notices] == [
        f"{files.user}: pi",
        f"{files.user}: limits.startupMs",
    ]


def test_a_project_that_is_not_trusted_is_not_heeded_and_told_so(files: Files) -> None:
    files.project.write_text('{"mode": "observe", "setup": "make", "colour": 1}')
    found = files.read(objection="nobody said so")
    assert found == Configuration(notices=(f"{files.project} is ignored: nobody said so",))
    files.project.unlink()
    assert files.read(objection="nobody said so") == Configuration()


def test_setup_of_a_project_is_shown_before_writers_run(files: Files) -> None:
    files.project.write_text(json.dumps({"setup": "make\nready"}))
    found = files.read()
    spec = accepted(job(builder()), layers=found.layers)
    shown = f'{files.project} has each writer\'s worktree prepared with "make\\u000aready"'
    assert found.notices_on(spec) == (shown,)
    overruled = accepted(job(builder(), config={"setup": False}), layers=found.layers)
    assert found.notices_on(overruled) == ()
    assert found.notices_on(spec_of(found)) == ()
    files.project.write_text('{"setup": false}')
    assert files.read().project_setup is None


def test_setup_of_the_user_needs_no_notice(files: Files) -> None:
    files.user.write_text('{"setup": "make"}')
    found = files.read()
    assert found.notices_on(accepted(job(builder()), layers=found.layers)) == ()


def test_a_file_that_is_no_file_of_this_place_is_refused_in_a_sentence(
    files: Files, tmp_path: Path
) -> None:
    (tmp_path / "other.json").write_text("{}")
    files.project.symlink_to(tmp_path / "other.json")
    assert files.refusal() == (
        f"{files.project} leads out of the repository; put the file itself there"
    )
    files.project.unlink()
    files.project.symlink_to("missing.json")
    assert files.refusal() == f"{files.project} cannot be read: No such file or directory"
    files.project.unlink()
    os.mkfifo(files.project)
    assert files.refusal() == f"{files.project} is no regular file"
    files.project.unlink()
    files.project.write_bytes(b" " * ((1 << 20) + 1))
    assert files.refusal() == f"{files.project} is longer than 1,048,576 bytes"
    files.project.chmod(0)
    assert files.refusal() == f"{files.project} cannot be read: Permission denied"
    files.project.parent.chmod(0)
    assert files.refusal() == f"{files.project} cannot be read: Permission denied"
    files.project.parent.chmod(0o700)


def test_links_of_the_user_are_followed(files: Files, tmp_path: Path) -> None:
    (tmp_path / "dotfiles.json").write_text('{"mode": "observe"}')
    files.user.symlink_to(tmp_path / "dotfiles.json")
    assert spec_of(files.read()).config.mode is Mode.OBSERVE
