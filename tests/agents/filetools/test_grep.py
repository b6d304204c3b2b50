import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
import trio
import trio.testing

from agents.filetools import grep
from agents.filetools.registry import TOOLS
from tests.support.toolbox import Toolbox


async def test_matches_are_shown_with_paths_from_the_working_directory(box: Toolbox) -> None:
    box.put("src/a.py", "import os\nimport sys\n")
    box.put("b.py", "x = 1\nimport trio\n")
    assert await box.text("grep", pattern="^import (os|t)") == (
        "b.py:2: import trio\nsrc/a.py:1: import os"
    )
    assert await box.text("grep", pattern="import", path="src", limit=1) == (
        "src/a.py:1: import os\n\n[the first 1 matching lines are shown; "
        "narrow it with path or glob, or raise limit, up to 2000]"
    )
    assert await box.text("grep", pattern="import", path="b.py") == "b.py:2: import trio"


async def test_no_match_is_said(box: Toolbox) -> None:
    box.put("a", "x\n")
    assert await box.text("grep", pattern="y") == "no line matches"


async def test_ignored_files_are_left_out_unless_their_folder_is_named(box: Toolbox) -> None:
    box.put(".gitignore", "node_modules/\n")
    box.put("node_modules/dep/index.js", "needle\n")
    box.put("node_modules/dep/.git/config", "needle\n")
    box.put("src/a.js", "needle\n")
    assert await box.text("grep", pattern="needle") == "src/a.js:1: needle"
    assert await box.text("grep", pattern="needle", path="node_modules") == (
        "node_modules/dep/index.js:1: needle"
    )


async def test_folders_outside_are_searched_too(box: Toolbox, tmp_path: Path) -> None:
    (tmp_path / "home/notes").write_text("needle")
    assert await box.text("grep", pattern="needle", path="~") == f"{tmp_path}/home/notes:1: needle"


async def test_a_glob_chooses_files_and_a_negated_one_leaves_them_out(box: Toolbox) -> None:
    for name in ("a.ts", "src/b.tsx", "src/c.md"):
        box.put(name, "needle\n")
    assert await box.text("grep", pattern="needle", glob="*.{ts,tsx}") == (
        "a.ts:1: needle\nsrc/b.tsx:1: needle"
    )
    assert await box.text("grep", pattern="needle", glob="!*.md") == (
        "a.ts:1: needle\nsrc/b.tsx:1: needle"
    )


async def test_literal_patterns_and_letter_case(box: Toolbox) -> None:
    box.put("a", "f(x)\nF(X)\nfx\n")
    assert await box.text("grep", pattern="f(x)", literal=True) == "a:1: f(x)"
    assert await box.text("grep", pattern="F(x)", literal=True, ignoreCase=True) == (
        "a:1: f(x)\na:2: F(X)"
    )


async def test_context_is_shown_once_where_matches_are_near(box: Toolbox) -> None:
    box.put("a", "".join(f"{n}\n" for n in range(1, 21)))
    box.put("b", "4\n")
    assert await box.text("grep", pattern="^(4|5|15|20)$", context=1) == (
        "a-3- 3\na:4: 4\na:5: 5\na-6- 6\n--\na-14- 14\na:15: 15\na-16- 16\n--\na-19- 19\na:20: 20"
        "\n--\nb:1: 4"
    )


async def test_long_lines_are_cut_at_500_characters(box: Toolbox) -> None:
    box.put("a", "é" * 600 + "\n")
    assert await box.text("grep", pattern="éé") == (
        f"a:1: {'é' * 500}... [line cut]\n\n"
        "[lines are cut at 500 characters; read shows them whole]"
    )


async def test_the_answer_is_cut_at_50_kilobytes(box: Toolbox) -> None:
    box.put("a", ("x" * 400 + "\n") * 500)
    text = await box.text("grep", pattern="x", limit=400)
    assert text.endswith("[cut at 2000 lines or 50 KB; narrow it with path or glob]")
    assert len(text.encode()) < 51 * 1024


async def test_no_more_lines_are_looked_for_than_an_answer_holds(box: Toolbox) -> None:
    box.put("a", "x\n" * 3_000)
    text = await box.text("grep", pattern="x", limit=10**9)
    assert "a:2000: x\n\n[the first 2000 matching lines are shown; " in text


async def test_the_limit_holds_over_all_files(box: Toolbox) -> None:
    for name in "abcd":
        box.put(name, "x\n")
    text = await box.text("grep", pattern="x", limit=2)
    assert text.startswith("a:1: x\nb:1: x\n\n[the first 2 matching lines are shown; ")
    assert await box.text("grep", pattern="x", limit=4) == "a:1: x\nb:1: x\nc:1: x\nd:1: x"


async def test_binary_large_missing_and_special_files_are_skipped(
    box: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grep, "FILE_LIMIT_BYTES", 20)
    box.put("binary", b"needle\0\n")
    box.put("large", "needle\n" * 3)
    box.put("small", "needle\n")
    box.put("deleted", "needle\n")
    box.git("add", ".")
    (box.root / "deleted").unlink()
    (box.root / "link").symlink_to("small")
    (box.root / "device").symlink_to("/dev/zero")
    os.mkfifo(box.root / "pipe")
    assert await box.text("grep", pattern="needle") == (
        "small:1: needle\n\n[1 too large to be searched, such as large]"
    )


async def test_crlf_files_match_at_line_ends(box: Toolbox) -> None:
    box.put("a", b"one\r\ntwo\r\n")
    assert await box.text("grep", pattern="one$") == "a:1: one"


async def test_a_pattern_that_would_explode_elsewhere_answers_at_once(box: Toolbox) -> None:
    box.put("a", "a" * 5_000 + "b\n")
    before = time.monotonic()
    assert await box.text("grep", pattern="(a+)+$") == "no line matches"
    assert time.monotonic() - before < 10


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("a(?=b)", "invalid perl operator"),
        ("(a", "missing )"),
        ("\\pL{1000}", "pattern too large"),
    ],
)
async def test_a_pattern_that_cannot_be_used_is_explained(
    box: Toolbox, pattern: str, said: str
) -> None:
    fault = await box.fault("grep", pattern=pattern)
    assert said in fault
    assert "the syntax is RE2's" in fault


async def test_a_missing_path_is_an_error(box: Toolbox) -> None:
    assert 'there is no "nope"' in await box.fault("grep", pattern="x", path="nope")


async def test_cancelling_ends_the_search(box: Toolbox) -> None:
    box.put("a", "x\n")
    listed = trio.Event()

    async def list_files() -> tuple[bytes, ...]:
        listed.set()
        return (b"a",) * 200_000

    context = replace(box.context, list_files=list_files)
    answers: list[str] = []

    async def call() -> None:
        answers.append((await TOOLS["grep"].run(context, {"pattern": "y"})).text)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(call)
        await listed.wait()
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert answers == []
