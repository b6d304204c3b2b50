from dataclasses import replace
from pathlib import Path

import pytest

from agents.definition import Source
from pinata.work.definitions import changed_since, read_roster
from pinata.work.trust import Project

GOOD = "---\ndescription: d\nkind: reader\n---\nLook.\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "repo" / ".pi" / "agents"
    folder.mkdir(parents=True)
    (folder / "historian.md").write_text(GOOD)
    (folder / "builder.md").write_text("---\nthinking: high\n---\n")
    return tmp_path / "repo"


def test_project_comes_over_the_bundled_and_the_user_over_both(root: Path, tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "historian.md").write_text("---\ndescription: mine\n---\n")
    found = read_roster(tmp_path, Project(root)).definitions
    assert {name: one.source for name, one in found.items()} == {
        "builder": Source.PROJECT,
        "historian": Source.USER,
        "reviewer": Source.PRESET,
        "scout": Source.PRESET,
    }
    assert (found["historian"].description, found["historian"].persona) == ("mine", "Look.\n")


def test_trusted_overlay_of_a_bundled_agent_applies_with_a_notice_and_a_new_digest(
    root: Path,
) -> None:
    bundled = read_roster(None, None).definitions["builder"]
    roster = read_roster(None, Project(root))
    assert roster.definitions["builder"].digest != bundled.digest
    assert roster.notices_on(["builder"]) == (
        "agent builder: the project definition overlays the preset one",
    )


def test_definitions_of_a_project_that_is_not_trusted_are_ignored_with_one_notice(
    root: Path,
) -> None:
    roster = read_roster(None, Project(root, "nobody said so"))
    assert roster.definitions == read_roster(None, None).definitions
    assert roster.notices_on(roster.definitions) == (
        f"{root / '.pi' / 'agents'} is ignored: nobody said so",
    )


def test_a_project_without_definitions_needs_no_trust(tmp_path: Path) -> None:
    assert read_roster(None, Project(tmp_path, "nobody said so")).notices == ()


def test_folder_of_a_project_that_leads_elsewhere_is_left_out(root: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / ".pi").symlink_to(root / ".pi")
    roster = read_roster(None, Project(tmp_path / "other"))
    assert "historian" not in roster.definitions
    (notice,) = roster.notices
    assert notice.endswith("is a link that leads out of the repository: it is left out")


def test_definitions_that_differ_from_the_stored_ones_are_named() -> None:
    now = read_roster(None, None).definitions
    scout, builder = now["scout"], now["builder"]
    gone = replace(builder, name="gone")
    said = changed_since([scout, replace(builder, persona="older"), gone], now)
    assert [notice.partition(":")[0] for notice in said] == ["agent builder", "agent gone"]
