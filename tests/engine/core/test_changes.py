import subprocess
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from engine.core.changes import (
    ABSENT_MODE,
    FILE_MODE,
    Change,
    ChangeStatus,
    quote_path,
    unquote_path,
)
from engine.core.ids import BlobId


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (b"src/a.py", "src/a.py"),
        ("é/[id].tsx".encode(), "é/[id].tsx"),
        (b'a "b" \\c', 'a "b" \\c'),
        (b'"a"', '"\\"a\\""'),
        (b"a\nb", '"a\\nb"'),
        (b"\x07\x08\t\n\x0b\x0c\r\x1b\x7f", '"\\a\\b\\t\\n\\v\\f\\r\\033\\177"'),
        (b"\xff\\x", '"\\377\\\\x"'),
        ("\u202e".encode(), '"\\342\\200\\256"'),
        (b"", ""),
    ],
)
def test_a_path_is_itself_unless_text_cannot_show_it(path: bytes, text: str) -> None:
    assert quote_path(path) == text
    assert unquote_path(text) == path


@given(st.binary())
def test_any_path_comes_back(path: bytes) -> None:
    assert unquote_path(quote_path(path)) == path


@given(st.text())
def test_any_text_path_comes_back(text: str) -> None:
    path = text.encode("utf-8")
    assert unquote_path(quote_path(path)) == path


@given(st.binary(), st.binary())
def test_one_text_stands_for_one_path(one: bytes, other: bytes) -> None:
    assert (quote_path(one) == quote_path(other)) == (one == other)


@given(st.binary())
def test_what_is_shown_can_be_printed(path: bytes) -> None:
    assert quote_path(path).isprintable()


def test_unquoting_takes_text_that_is_not_ascii_inside_quotes() -> None:
    assert unquote_path('"é\\377"') == "é".encode() + b"\xff"


def test_quoting_agrees_with_git(tmp_path: Path) -> None:
    names = [b"\xff\\a", b"a\tb", b"\xfe\x1b\x7f", b'\xfd"q"']
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for name in names:
        Path(bytes(tmp_path).decode(), name.decode("utf-8", "surrogateescape")).touch()
    listed = subprocess.run(
        ["git", "ls-files", "--others"], cwd=tmp_path, check=True, capture_output=True
    ).stdout.decode()
    assert sorted(listed.splitlines()) == sorted(quote_path(name) for name in names)


def test_a_change_is_a_value() -> None:
    change = Change(
        b"a", ChangeStatus.ADDED, ABSENT_MODE, FILE_MODE, BlobId("0" * 40), BlobId("1" * 40)
    )
    assert {change, change} == {change}
    assert ChangeStatus("T") is ChangeStatus.TYPE_CHANGED
