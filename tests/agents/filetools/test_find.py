from pathlib import Path

import pytest

from agents.filetools import scope
from tests.support.toolbox import Toolbox


@pytest.fixture
def tree(box: Toolbox) -> Toolbox:
    for name in ("a.py", "src/b.py", "src/deep/c.py", "src/deep/d.txt", ".hidden/e.py"):
        box.put(name, "")
    return box


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.py", [".hidden/e.py", "a.py", "src/b.py", "src/deep/c.py"]),
        ("src/*.py", ["src/b.py"]),
        ("./src/*.py", ["src/b.py"]),
        ("/*.py", ["a.py"]),
        ("src/**/*.py", ["src/b.py", "src/deep/c.py"]),
        ("**/deep/*", ["src/deep/c.py", "src/deep/d.txt"]),
        ("deep", ["src/deep/"]),
        ("d*/", ["src/deep/"]),
        ("?.{py,txt}", [".hidden/e.py", "a.py", "src/b.py", "src/deep/c.py", "src/deep/d.txt"]),
        ("[!a-c].*", [".hidden/e.py", "src/deep/d.txt"]),
        ("nope", ["nothing has such a name"]),
    ],
)
async def test_globs_fit_names_and_paths(tree: Toolbox, pattern: str, found: list[str]) -> None:
    assert (await tree.text("find", pattern=pattern)).split("\n") == found


async def test_a_path_is_where_globs_are_read_from_and_answers_stay_readable(
    tree: Toolbox,
) -> None:
    assert await tree.text("find", pattern="deep/*.py", path="src") == "src/deep/c.py"
    assert await tree.text("find", pattern="*.py", path=str(tree.root / "src/deep")) == (
        "src/deep/c.py"
    )


async def test_a_limit_is_told(tree: Toolbox) -> None:
    assert await tree.text("find", pattern="*.py", limit=1) == (
        ".hidden/e.py\n\n[the first 1 are shown; narrow the pattern, or raise limit]"
    )
    assert "[the" not in await tree.text("find", pattern="*.py", limit=4)


async def test_long_answers_are_cut(box: Toolbox) -> None:
    for number in range(100, 400):
        (box.root / f"{number}{'x' * 200}").touch()
    text = await box.text("find", pattern="*x")
    assert text.count("x\n") == 51_200 // 204
    assert text.endswith("[cut at 2000 lines or 50 KB; narrow the pattern or give path]")


async def test_what_git_ignores_or_no_longer_exists_is_left_out(tree: Toolbox) -> None:
    tree.git("add", ".")
    tree.put(".gitignore", "build/\n*.log\n")
    tree.put("build/out.py", "")
    tree.put("src/x.log", "")
    (tree.root / "a.py").unlink()
    text = await tree.text("find", pattern="*")
    assert "build" not in text
    assert "x.log" not in text
    assert "a.py" not in text
    assert await tree.text("find", pattern="*", path="build") == "build/out.py"


async def test_a_walk_of_a_folder_that_git_does_not_list_is_bounded(
    box: Toolbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scope, "WALK_LIMIT_FILES", 2)
    for name in ("a", "b", "c"):
        (tmp_path / "home" / name).touch()
    text = await box.text("find", pattern="*", path="~")
    assert text.count(str(tmp_path)) == 2
    assert "only the first 2 files were looked at" in text


@pytest.mark.parametrize("pattern", ["", "/", "./"])
async def test_an_empty_glob_is_refused(box: Toolbox, pattern: str) -> None:
    assert "the glob is empty" in await box.fault("find", pattern=pattern)


async def test_an_open_brace_is_refused_and_an_escaped_one_is_a_sign(box: Toolbox) -> None:
    assert "a brace in the glob is not closed" in await box.fault("find", pattern="{a,b")
    for name in ("{a,b", "a]", "a-b", "x^y", "[]", "x\ny"):
        box.put(name, "")
    assert await box.text("find", pattern="\\{a,b") == "{a,b"
    assert await box.text("find", pattern="a[]-]*") == "a-b\na]"
    assert await box.text("find", pattern="x[^a]y") == '"x\\ny"\nx^y'
    assert await box.text("find", pattern="x[a^]y") == "x^y"
    assert await box.text("find", pattern="[]") == "[]"
    assert await box.text("find", pattern="}") == "nothing has such a name"
