import stat

import pytest

from agents.filetools import edit
from tests.support.toolbox import Toolbox


def replace(old: str, new: str) -> dict[str, str]:
    return {"oldText": old, "newText": new}


async def test_all_replacements_are_made_in_the_file_as_it_was(box: Toolbox) -> None:
    path = box.put("a.txt", "one\ntwo\nthree\n")
    text = await box.text(
        "edit",
        path="a.txt",
        edits=[replace("three", "one"), replace("one", "two"), replace("two\n", "")],
    )
    assert text == 'replaced 3 texts in "a.txt"'
    assert path.read_text() == "two\none\n"


async def test_permission_bits_survive(box: Toolbox) -> None:
    path = box.put("run.sh", "old")
    path.chmod(0o700)
    assert await box.text("edit", path="run.sh", edits=[replace("old", "new")]) == (
        'replaced 1 text in "run.sh"'
    )
    assert stat.S_IMODE(path.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        pytest.param(b"a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", b"x\r\ny\r\nz\r\nc\r\n", id="all crlf"),
        pytest.param(b"a\r\nb\nc\n", "c", "x\ny", b"a\r\nb\nx\r\ny\n", id="mixed, as it begins"),
        pytest.param(b"a\r\nb\nc\nd", "b\nc", "x\ny", b"a\r\nx\ny\nd", id="mixed, as in the place"),
        pytest.param(b"a\r\nb\r\n", "a\r\nb", "c\r\nd", b"c\r\nd\r\n", id="model sends crlf"),
        pytest.param(b"a\r\nb", "\n", " ", b"a b", id="the line end itself"),
        pytest.param(b"\nb", "b", "x\ny", b"\nx\ny", id="begins with a line feed"),
        pytest.param(b"\xef\xbb\xbfa\n", "a", "b", b"\xef\xbb\xbfb\n", id="byte order mark"),
        pytest.param(b"a\rb\n", "b", "c\nd", b"a\rc\nd\n", id="lone carriage return"),
        pytest.param("é\r\nü\r\n".encode(), "ü", "ö", "é\r\nö\r\n".encode(), id="not ascii"),
    ],
)
async def test_bytes_outside_of_the_replaced_text_stay(
    box: Toolbox, before: bytes, old: str, new: str, after: bytes
) -> None:
    path = box.put("a.txt", before)
    await box.text("edit", path="a.txt", edits=[replace(old, new)])
    assert path.read_bytes() == after


@pytest.mark.parametrize(
    ("edits", "said"),
    [
        pytest.param([replace("nope", "x")], "edits[0]: oldText was not found; read", id="absent"),
        pytest.param([replace("two\nfour", "x")], "like line 2 of the file", id="starts alike"),
        pytest.param([replace("\n\n\n", "x")], "oldText was not found; read", id="only line ends"),
        pytest.param([replace("o", "x")], "occurs 2 times, on lines 1, 2", id="twice"),
        pytest.param([replace("", "x")], "oldText is empty", id="empty"),
        pytest.param(
            [replace("one\nt", "x"), replace("two", "y")],
            "edits[0] and edits[1] overlap",
            id="overlap",
        ),
        pytest.param([replace("one", "one")], 'leave "a.txt" as it is', id="no change"),
        pytest.param(
            [replace("three", "x"), replace("nope", "y")],
            "edits[1]: oldText was not",
            id="one of two",
        ),
    ],
)
async def test_a_wrong_edit_changes_nothing_and_says_what_helps(
    box: Toolbox, edits: list[dict[str, str]], said: str
) -> None:
    path = box.put("a.txt", "one\ntwo\nthree\n")
    inode = path.stat().st_ino
    assert said in await box.fault("edit", path="a.txt", edits=edits)
    assert path.read_text() == "one\ntwo\nthree\n"
    assert path.stat().st_ino == inode


async def test_occurrences_that_overlap_each_other_count_each(box: Toolbox) -> None:
    box.put("a.txt", "aaa")
    assert "occurs 2 times" in await box.fault("edit", path="a.txt", edits=[replace("aa", "b")])


async def test_very_many_occurrences_are_not_all_listed(box: Toolbox) -> None:
    box.put("a.txt", "a\n" * 500)
    fault = await box.fault("edit", path="a.txt", edits=[replace("a", "b")])
    assert "occurs very often, on lines 1, 2, 3, 4, 5, …;" in fault


async def test_a_missing_file_is_not_made_and_no_parent_either(box: Toolbox) -> None:
    for path in ("b.txt", "src/b.txt"):
        fault = await box.fault("edit", path=path, edits=[replace("a", "b")])
        assert f'there is no "{path}"; write makes new files' in fault
    assert not (box.root / "src").exists()


async def test_what_is_not_utf8_is_refused(box: Toolbox) -> None:
    path = box.put("a.txt", b"caf\xe9")
    assert "not UTF-8" in await box.fault("edit", path="a.txt", edits=[replace("caf", "x")])
    assert path.read_bytes() == b"caf\xe9"


async def test_a_huge_file_is_refused(box: Toolbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edit, "SIZE_LIMIT_BYTES", 4)
    box.put("a.txt", "hello")
    assert "larger than 4 bytes" in await box.fault(
        "edit", path="a.txt", edits=[replace("hello", "x")]
    )
