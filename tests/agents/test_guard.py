import os
from pathlib import Path

import pytest

from agents.guard import Guard, Refusal
from agents.loadout import CEILINGS, READING_TOOLS, WRITING_TOOLS
from engine.core.spec import Kind


def writer(root: Path, *ownership: str, fold_case: bool = False, home: str | None = None) -> Guard:
    return Guard(Kind.WRITER, root, ownership, WRITING_TOOLS, fold_case, home)


def refused(guard: Guard, path: object, tool: str = "write") -> str:
    """Return why the guard refuses to write `path`, which it must."""
    refusal = guard.check(tool, {"path": path})
    assert refusal is not None
    return refusal.message


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "work/src").mkdir(parents=True)
    return tmp_path / "work"


@pytest.mark.parametrize("tool", ["write", "edit"])
def test_writers_change_what_they_own_however_it_is_spelled(root: Path, tool: str) -> None:
    guard = writer(root, "a.txt", "src", home=str(root))
    for path in (
        "a.txt",
        "./a.txt",
        "@a.txt",
        "~/a.txt",
        f"{root}/a.txt",
        f"/{root}/a.txt",
        "x/../a.txt",
        "src",
        "src/deep/new",
        "src/..notes",
        "src/a\u00a0b",
    ):
        assert guard.check(tool, {"path": path}) is None, path


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("b.txt", '"b.txt" is not owned by this task'),
        ("srcx/a", "not owned"),
        ("../x", "outside of the working directory"),
        ("/etc/passwd", "outside of the working directory"),
        ("src/../../x", "outside of the working directory"),
        ("~/x", "outside of the working directory"),
        (".git/config", "leads into a .git folder"),
        ("src/.GIT/x", "leads into a .git folder"),
        (".git", "leads into a .git folder"),
        (".", "the working directory itself"),
        ("", "the path is empty"),
        ("@", "the path is empty"),
        ("a\0b", "NUL character"),
        (None, "write needs 'path'"),
        (3, "write needs 'path'"),
    ],
)
def test_other_writes_are_refused_with_what_may_be_done_instead(
    root: Path, path: object, said: str
) -> None:
    guard = writer(root, "a.txt", "src", home=str(root.parent))
    message = refused(guard, path)
    assert refused(guard, path, "edit") == message.replace("write needs", "edit needs")
    assert said in message
    if isinstance(path, str):
        assert message.endswith(
            '; this task may change "a.txt" and "src"; put other needs into the result'
        )


def test_arguments_that_are_no_object_name_no_file(root: Path) -> None:
    refusal = writer(root, "src").check("write", ["src/a"])
    assert refusal == Refusal("write needs 'path', a text that names one file")


def test_owning_the_parent_of_git_does_not_open_it(root: Path) -> None:
    assert "leads into a .git folder" in refused(writer(root, "src"), "src/.Git/hooks/pre-commit")


def test_a_tilde_without_a_known_home_is_explained(root: Path) -> None:
    assert "no home directory is known" in refused(writer(root, "src"), "~/a")


def test_paths_through_an_owned_link_are_refused_also_when_it_leads_nowhere(
    root: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "src/file").symlink_to("nowhere")
    (root / "self").symlink_to(".")
    guard = writer(root, "link", "src", "self")
    assert '"link/x" leads through the symbolic link link' in refused(guard, "link/x")
    assert "symbolic link link" in refused(guard, "link")
    assert "symbolic link src/file" in refused(guard, "src/file")
    assert "symbolic link self" in refused(guard, "self/src/x")


def test_a_root_reached_through_a_link_is_known_by_all_its_names(
    root: Path, tmp_path: Path
) -> None:
    (tmp_path / "alias").symlink_to(tmp_path)
    alias = tmp_path / "alias/work"
    for guard in (writer(alias, "a.txt"), writer(root, "a.txt")):
        for path in ("a.txt", f"{alias}/a.txt", f"{root}/a.txt"):
            assert guard.check("write", {"path": path}) is None
        assert "not owned" in refused(guard, f"{alias}/b.txt")


def test_a_file_in_place_of_a_folder_is_left_to_the_tool(root: Path) -> None:
    (root / "src/a").touch()
    assert writer(root, "src").check("write", {"path": "src/a/b"}) is None


def test_letter_case_counts_unless_the_volume_ignores_it(root: Path) -> None:
    assert "not owned" in refused(writer(root, "src"), "SRC/a")
    assert writer(root, "src", fold_case=True).check("write", {"path": "SRC/a"}) is None


def test_a_vanished_root_is_a_refusal(root: Path) -> None:
    (root / "src").rmdir()
    root.rmdir()
    assert '"a.txt" cannot be looked at: No such file' in refused(writer(root, "a.txt"), "a.txt")


@pytest.mark.parametrize("kind", list(Kind))
def test_a_tool_outside_of_the_loadout_is_refused_with_the_loadout(root: Path, kind: Kind) -> None:
    guard = Guard(kind, root, (), (*READING_TOOLS, "submit_result"), fold_case=False)
    assert guard.check("web_search", {}) == Refusal(
        'the tool "web_search" is not yours to call; '
        "yours are: read, grep, find, ls and submit_result"
    )
    nothing = Guard(kind, root, (), (), fold_case=False)
    assert nothing.check("read", {}) == Refusal(
        'the tool "read" is not yours to call; yours are: none'
    )


@pytest.mark.parametrize("kind", [Kind.READER, Kind.REVIEWER])
@pytest.mark.parametrize("tool", ["edit", "write", "bash", "powershell", "anything_new"])
def test_readers_change_nothing_even_if_a_tool_slipped_into_their_loadout(
    root: Path, kind: Kind, tool: str
) -> None:
    refusal = Guard(kind, root, ("src",), (tool,), fold_case=False).check(tool, {"path": "src/a"})
    assert refusal == Refusal(
        f'a {kind.value} may not call "{tool}"; say in the result what should be done'
    )


def test_a_writer_who_may_only_hand_in_its_result_cannot_write(root: Path) -> None:
    tools = (*READING_TOOLS, "submit_result")
    guard = Guard(Kind.WRITER, root, ("a.txt",), tools, fold_case=False)
    assert "not yours to call" in refused(guard, "a.txt")
    assert guard.check("read", {"path": "b.txt"}) is None


def test_every_kind_may_use_its_ceiling_and_finish(root: Path) -> None:
    for kind, ceiling in CEILINGS.items():
        tools = (*sorted(ceiling - {"edit", "write"}), "submit_result", "codemode")
        guard = Guard(kind, root, (), tools, fold_case=False)
        assert [guard.check(tool, {}) for tool in tools] == [None] * len(tools)


def test_the_guard_leaves_the_disk_as_it_is(root: Path) -> None:
    before = sorted(os.walk(root))
    guard = writer(root, "new")
    assert guard.check("write", {"path": "new/deep/file", "content": ""}) is None
    assert sorted(os.walk(root)) == before
